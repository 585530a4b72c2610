package pgsession

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// busy makes a session on which nobody reads at the moment: a call has just been answered.
func busy(t *testing.T) (*Session, *server) {
	t.Helper()
	s, v := serving(t)
	if err := <-call(t.Context(), s, 1); err != nil {
		t.Fatal(err)
	}
	v.hold(true)
	return s, v
}

// without is an error if the caller's call was not sent, or did not leave without an answer.
func without(err error) error {
	if !errors.Is(err, locker.ErrNoAnswer) || errors.Is(err, kit.ErrNotSent) {
		return errors.Join(errors.New("want locker.ErrNoAnswer alone"), err)
	}
	return nil
}

// A call whose caller reads for itself needs nobody else: no time passes.
func TestCallersRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, v := serving(t)
		if err := <-call(t.Context(), s, 1); err != nil { // read in the background
			t.Fatal(err)
		}
		began := time.Now()
		for n := range int64(20) {
			if err := <-call(t.Context(), s, n); err != nil {
				t.Fatal(err)
			}
		}
		v.hold(true)
		done := call(t.Context(), s, 5)
		if reads, inBackground := s.hasReader(); !reads || inBackground {
			t.Error("a lone caller doesn't read for itself")
		}
		v.next(1)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v, want no time: somebody has waited for a reader", took)
		}
		time.Sleep(2 * quiet)
		synctest.Wait()
		if _, inBackground := s.hasReader(); !inBackground {
			t.Error("nobody reads an idle connection")
		}
	})
}

// A reader that has its answer passes the role on to the caller of the next one, and where there
// are many, to the background.
func TestRoleIsPassedOn(t *testing.T) {
	for _, n := range []int{2, crowd + 1, crowd + 2} {
		synctest.Test(t, func(t *testing.T) {
			s, v := busy(t)
			began := time.Now()
			var calls []chan error
			for i := range n {
				calls = append(calls, call(t.Context(), s, int64(i)))
			}
			for i, done := range calls {
				if reads, inBackground := s.hasReader(); !reads || inBackground != (i > 0 && n-i > crowd) {
					t.Errorf("%d of %d calls are under way: somebody reads: %v, in the background: %v", n-i, n, reads, inBackground)
				}
				v.next(1)
				if err := <-done; err != nil {
					t.Error(err)
				}
				synctest.Wait()
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("it took %v, want no time: somebody has waited for a reader", took)
			}
		})
	}
}

// A caller that leaves while it reads for others passes the role on. Its own late answer is taken
// for its own.
func TestReaderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, v := busy(t)
		ctx, cancel := context.WithCancel(t.Context())
		one := call(ctx, s, 1)
		two, three := call(t.Context(), s, 2), call(t.Context(), s, 3)
		time.Sleep(time.Second)
		began := time.Now()
		cancel()
		if err := without(<-one); err != nil || time.Since(began) != 0 {
			t.Errorf("the reader that leaves: %v after %v", err, time.Since(began))
		}
		synctest.Wait()
		v.next(3)
		if err := errors.Join(<-two, <-three); err != nil {
			t.Error(err)
		}
		if time.Since(began) != 0 {
			t.Errorf("the others have waited for %v after the reader had left", time.Since(began))
		}
	})
}

// The next reader leaves at the same moment as the reader, and the one after that as well: somebody
// else reads then, and only one.
func TestNextReaderLeaves(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			counted := new(counting)
			s, v := servingThrough(t, func(c net.Conn) net.Conn { counted.Conn = c; return counted })
			if err := <-call(t.Context(), s, 1); err != nil {
				t.Fatal(err)
			}
			v.hold(true)
			ctx, cancel := context.WithCancel(t.Context())
			leaving := []chan error{call(ctx, s, 1), call(ctx, s, 2)}
			staying := call(t.Context(), s, 3)
			leaving = append(leaving, call(ctx, s, 4))
			time.Sleep(time.Duration(rand.IntN(3)) * quiet)
			began := time.Now()
			cancel()
			for i, done := range leaving {
				if err := without(<-done); err != nil || time.Since(began) > firstLook {
					t.Errorf("caller %d that leaves: %v after %v", i, err, time.Since(began))
				}
			}
			synctest.Wait()
			began = time.Now()
			v.next(4)
			if err := <-staying; err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("the answer was taken in %v after the readers had left", took)
			}
			if most := counted.mostAtOnce(); most > 1 {
				t.Errorf("%d goroutines have read at the same time", most)
			}
		})
	}
}

// counting is a stream that counts its readers.
type counting struct {
	net.Conn
	mu        sync.Mutex
	now, most int
}

func (c *counting) Read(b []byte) (int, error) {
	c.add(1)
	defer c.add(-1)
	return c.Conn.Read(b)
}

func (c *counting) mostAtOnce() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most
}

func (c *counting) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += n
	c.most = max(c.most, c.now)
}

// What was meant for an earlier reader makes nobody leave: a past deadline that is left on the
// stream, a token that is left in a channel, and the end of a context that an earlier wait had.
func TestLeftNote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, v := busy(t)
		c, err := s.BeginFunctions(t.Context(), AdvisoryUnlock(7))
		if err != nil {
			t.Fatal(err)
		}
		c.wake = make(chan struct{}, 1)
		c.wake <- struct{}{}
		s.setReadDeadline(time.Unix(1, 0))
		other := call(t.Context(), s, 8) // reads, because nobody does
		done := make(chan error, 1)
		go func() { done <- s.WaitFunctions(t.Context(), time.Hour, c) }()
		synctest.Wait()
		s.interrupt(c) // it doesn't read
		s.setReadDeadline(time.Unix(1, 0))
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("the caller has left: %v", err)
		case err := <-other:
			t.Fatalf("the reader has left: %v", err)
		default:
		}
		v.next(2)
		if err := errors.Join(<-done, <-other); err != nil {
			t.Error(err)
		}
		wantResult(t, "the call", c, 0, 7)
	})
}
