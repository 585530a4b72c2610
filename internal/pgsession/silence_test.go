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

// A server that never answers one in the middle: all after it have no answer either, each caller
// leaves when its own time is up, and the silence is known.
func TestNoAnswerInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, v := busy(t)
		first := call(t.Context(), s, 1)
		var others [3]chan error
		for i := range others {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Second)
			defer cancel()
			others[i] = call(ctx, s, int64(i+2))
		}
		time.Sleep(time.Second / 2)
		v.next(1)
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for i, done := range others {
			if err := without(<-done); err != nil || time.Since(began) != time.Duration(i)*time.Second+time.Second/2 {
				t.Errorf("caller %d = %v after %v", i, err, time.Since(began))
			}
		}
		if got := s.Silence(); got != time.Since(began) {
			t.Errorf("Silence = %v, want %v: since the last answer", got, time.Since(began))
		}
		limited := make(chan error, 1)
		go func() {
			_, err := s.CallFunctions(t.Context(), time.Second, AdvisoryUnlock(9))
			limited <- err
		}()
		synctest.Wait()
		began = time.Now()
		if err := without(<-limited); err != nil || time.Since(began) != time.Second {
			t.Errorf("a caller with a limit = %v after %v", err, time.Since(began))
		}
		v.hold(false)
		v.next(4)
		if err := <-call(t.Context(), s, 10); err != nil {
			t.Errorf("when the server answers again: %v", err)
		}
		if s.Silence() != 0 {
			t.Errorf("Silence = %v, want none", s.Silence())
		}
	})
}

// A stream without deadlines is read in the background alone: nobody could leave it.
func TestStreamWithoutDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, v := servingThrough(t, func(c net.Conn) net.Conn { return &timeless{c} })
		if err := <-call(t.Context(), s, 1); err != nil {
			t.Fatal(err)
		}
		v.hold(true)
		ctx, cancel := context.WithCancel(t.Context())
		one, two := call(ctx, s, 1), call(t.Context(), s, 2)
		if _, inBackground := s.hasReader(); !inBackground {
			t.Error("a caller reads")
		}
		cancel()
		if err := without(<-one); err != nil {
			t.Error(err)
		}
		v.next(2)
		if err := <-two; err != nil {
			t.Error(err)
		}
	})
}

type timeless struct{ net.Conn }

func (timeless) SetReadDeadline(time.Time) error { return errors.New("not supported") }

// Many callers, of which some leave at any moment: each gets its own answer, and what was withdrawn
// is never executed.
func TestManyCallers(t *testing.T) {
	for _, callers := range []int{2, 3, 16, 64} {
		s, v := serving(t)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				for round := range 2000 / callers {
					ctx, cancel := context.WithCancel(t.Context())
					if round%3 == 0 {
						time.AfterFunc(time.Duration(rand.IntN(100))*time.Microsecond, cancel)
					}
					key := int64(i*1000+round)<<7 | int64(rand.IntN(128))
					c, err := s.CallFunctions(ctx, 10*time.Second, AdvisoryUnlock(key))
					executed := v.times(text(AdvisoryUnlock(key)))
					switch {
					case err == nil:
						if got, callErr := c.Result(0); callErr != nil || got != key&0x7f || executed != 1 {
							t.Errorf("call %d = %d, %v, executed %d times", key, got, callErr, executed)
						}
					case errors.Is(err, kit.ErrNotSent) && executed > 0:
						t.Errorf("call %d was withdrawn, and executed", key)
					case !errors.Is(err, locker.ErrNoAnswer) || ctx.Err() == nil:
						t.Errorf("call %d = %v", key, err)
					}
					cancel()
				}
			})
		}
		all.Wait()
	}
}

// A call that was withdrawn has its outcome: a caller that waits for it again gets that at once.
func TestWithdrawnCallIsWaitedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream := &cuttable{release: make(chan struct{})}
		s, _ := servingThrough(t, func(c net.Conn) net.Conn { stream.Conn = c; return stream })
		stream.cutAfter(1 << 20)
		first := call(t.Context(), s, 1) // is being written
		c, err := s.Begin(t.Context(), "SELECT 1")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 3 {
			if err := s.Wait(ctx, c); !errors.Is(err, kit.ErrNotSent) {
				t.Errorf("Wait for a statement that was withdrawn = %v, want kit.ErrNotSent", err)
			}
		}
		<-c.Done()
		if len(s.turn) != 0 {
			t.Error("it still has its turn")
		}
		close(stream.release)
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

// Where the server says nothing, a write may block: the kernel's buffer is full. Its caller leaves in time.
func TestBlockedWriteIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream := &cuttable{release: make(chan struct{})}
		s, v := servingThrough(t, func(c net.Conn) net.Conn { stream.Conn = c; return stream })
		v.hold(true)
		first := call(t.Context(), s, 1)
		time.Sleep(maybeFull)
		stream.cutAfter(1 << 20) // all writes wait, and then get through
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		gone := call(ctx, s, 2)
		last := call(t.Context(), s, 3)
		go func() {
			time.Sleep(3 * time.Second)
			close(stream.release)
		}()
		if err := without(<-gone); err != nil || time.Since(began) != time.Second {
			t.Errorf("a caller whose call is being written = %v after %v, want ErrNoAnswer after 1 s", err, time.Since(began))
		}
		time.Sleep(3 * time.Second)
		v.hold(false)
		v.next(3)
		if err := errors.Join(<-first, <-last); err != nil {
			t.Errorf("when the server goes on: %v", err)
		}
	})
}

// A server that says nothing isn't sent more and more: later calls wait outside, and are not sent.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, v := busy(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var calls []chan error
		for i := range mostFunctionCalls + 20 {
			calls = append(calls, call(ctx, s, int64(i)))
		}
		for i, done := range calls {
			if err := <-done; !errors.Is(err, locker.ErrNoAnswer) || errors.Is(err, kit.ErrNotSent) != (i >= mostFunctionCalls) {
				t.Errorf("call %d = %v, want kit.ErrNotSent from %d on", i, err, mostFunctionCalls)
			}
		}
		v.hold(false)
		v.next(mostFunctionCalls)
		for i := range int64(2 * mostFunctionCalls) {
			if err := <-call(t.Context(), s, i&0x7f); err != nil {
				t.Fatalf("when the server answers again: %v", err)
			}
		}
		if len(s.slots) != 0 {
			t.Errorf("%d slots are still taken", len(s.slots))
		}
	})
}
