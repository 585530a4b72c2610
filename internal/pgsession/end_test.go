package pgsession

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/driver/kit"
)

// When a connection ends with a hundred calls under way, each is known as sent or not, and none is
// executed that isn't known as sent. The stream takes a part of the last write.
func TestEndWithManyUnderWay(t *testing.T) {
	const n, before, size = 100, 50, 54 // calls; those that are sent before the fault; bytes of one
	for taken := 0; taken < 200; taken += 9 {
		synctest.Test(t, func(t *testing.T) {
			stream := &cuttable{release: make(chan struct{})}
			s, v := servingThrough(t, func(c net.Conn) net.Conn { stream.Conn = c; return stream })
			v.hold(true)
			outcomes := make([]error, n)
			var all sync.WaitGroup
			start := func(from, to int) {
				for i := from; i < to; i++ {
					all.Go(func() { _, outcomes[i] = s.CallFunctions(t.Context(), time.Hour, functionsOf(i)...) })
				}
				synctest.Wait()
			}
			start(0, before)
			stream.cutAfter(taken)
			start(before, before+1) // is being written
			start(before+1, 60)     // wait for that
			close(stream.release)
			synctest.Wait()
			start(60, n)
			all.Wait()
			sent := 0
			for i, err := range outcomes {
				isSent := !errors.Is(err, kit.ErrNotSent)
				if !Ended(err) {
					t.Fatalf("taken %d: call %d = %v, want the end of the connection", taken, i, err)
				}
				if isSent {
					sent++
				}
				for _, f := range functionsOf(i) {
					if executed := v.times(text(f)); executed > 1 || executed == 1 && !isSent {
						t.Errorf("taken %d: a function of call %d was executed %d times, and is known as sent: %v", taken, i, executed, isSent)
					}
				}
			}
			if want := before + (taken+size-1)/size; sent != want {
				t.Errorf("taken %d: %d calls count as sent, want %d: those of which anything was written", taken, sent, want)
			}
		})
	}
}

func functionsOf(i int) []Function {
	return []Function{TryAdvisoryLock(int64(i)), NextValue(uint32(i + 1000))} //nolint:gosec // small
}

// cuttable is a stream whose writes can be held up, and that takes some more bytes then.
type cuttable struct {
	net.Conn
	release chan struct{}

	mu    sync.Mutex
	isCut bool
	left  int
}

func (c *cuttable) cutAfter(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut, c.left = true, n
}

func (c *cuttable) Write(b []byte) (int, error) {
	c.mu.Lock()
	isCut := c.isCut
	c.mu.Unlock()
	if !isCut {
		return c.Conn.Write(b)
	}
	<-c.release
	c.mu.Lock()
	defer c.mu.Unlock()
	n, _ := c.Conn.Write(b[:min(c.left, len(b))])
	if c.left -= n; n == len(b) {
		return n, nil
	}
	return n, os.ErrDeadlineExceeded
}

// A kernel that gives the connection up says that it has timed out. That is an end, and no deadline
// of a reader.
func TestKernelGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, theirs := net.Pipe()
		defer func() { _ = theirs.Close() }()
		s := New(&Conn{stream: &failing{mine, &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ETIMEDOUT)}}}, Settings{})
		s.Start(func(error) {})
		synctest.Wait()
		if err := s.Err(); !Ended(err) {
			t.Errorf("Err = %v, want the end of the connection", err)
		}
	})
}

type failing struct {
	net.Conn
	err error
}

func (f *failing) Read([]byte) (int, error) { return 0, f.err }
