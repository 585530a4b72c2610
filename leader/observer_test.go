package leader_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/leader"
	"github.com/fencedlock/locker/membackend"
)

// An observer that hangs delays neither elections nor the end.
func TestObserverThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, n := &slowBook{gate: make(chan struct{})}, 0
		began := time.Now()
		r := start(t, newSite(t, membackend.NewServer()), func(context.Context, leader.Term) error {
			if n++; n == 1000 {
				return leader.ErrStop
			}
			return nil
		}, leader.WithRest(0), leader.WithObserver(b))
		<-r.done
		if since(began) != time.Second {
			t.Errorf("1000 terms took %v, want only the wait for the observer", since(began))
		}
		close(b.gate)
		got := b.take()
		if n := len(got); n < 1000 || n > 1002 || got[0] != "standing" || got[n-1] != "ended" {
			t.Errorf("the observer was told %d things, the last was %s, want whole terms up to about the limit", n, got[len(got)-1])
		}
	})
}

// An observer that hangs keeps nothing from another one.
func TestObserverThatHangsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, b := &slowBook{gate: make(chan struct{})}, new(book)
		r := start(t, newSite(t, membackend.NewServer()), func(context.Context, leader.Term) error { return leader.ErrStop },
			leader.WithObserver(slow), leader.WithObserver(b))
		<-r.done
		if got := b.take(); !slices.Equal(got, []string{"standing", "elected", "ended"}) {
			t.Errorf("the other observer was told %v", got)
		}
		close(slow.gate)
		if got := slow.take(); len(got) != 3 {
			t.Errorf("the observer was told %v", got)
		}
	})
}

// A service that is down for a day leaves one failure for an observer that is late, and no term out.
func TestFailuresDoNotFillTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, b := &slowBook{gate: make(chan struct{})}, new(book)
		s := membackend.NewServer()
		s.Fail(errService)
		r := start(t, newSite(t, s), func(context.Context, leader.Term) error { return leader.ErrStop },
			leader.WithObserver(slow), leader.WithObserver(b))
		time.Sleep(24 * time.Hour)
		if got := b.take(); len(got) < 3600 || !errors.Is(b.lastFailure(), errService) {
			t.Errorf("the observer that isn't late was told %d things in a day, the last failure is %v", len(got), b.lastFailure())
		}
		s.Fail(errPassword)
		time.Sleep(time.Minute)
		s.Fail(nil)
		<-r.done
		close(slow.gate)
		if got := slow.take(); !slices.Equal(got, []string{"standing", "acquisition failed", "elected", "ended"}) {
			t.Errorf("the observer was told %d things, such as %v", len(got), got[:min(len(got), 4)])
		}
		if !errors.Is(slow.lastFailure(), errPassword) {
			t.Errorf("the failure is %v, want the latest one", slow.lastFailure())
		}
	})
}

// What no wait can change is the last that an observer is told.
func TestObserverOfAPermanentFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(book)
		err := leader.Run(t.Context(), newSite(t, membackend.NewServer()), office,
			func(context.Context, leader.Term) error { return nil }, leader.WithTTL(time.Millisecond), leader.WithObserver(b))
		if got := b.take(); !slices.Equal(got, []string{"standing", "acquisition failed"}) || !errors.Is(b.lastFailure(), locker.ErrOption) {
			t.Errorf("Run = %v, the observer was told %v, %v", err, got, b.lastFailure())
		}
	})
}

// An observer's context has the values of Run's, and doesn't end with it.
func TestContextOfObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		b := new(book)
		_ = leader.Run(ctx, newSite(t, membackend.NewServer()), office, func(context.Context, leader.Term) error {
			cancel()
			return nil
		}, leader.WithObserver(b))
		if got := b.take(); !slices.Equal(got, []string{"standing", "elected", "ended"}) || b.ctx.Value(key{}) != "value" || b.ctx.Err() != nil {
			t.Errorf("the observer was told %v, with the value %v, %v", got, b.ctx.Value(key{}), b.ctx.Err())
		}
	})
}

func TestEventKind(t *testing.T) {
	want := []string{"kind 0", "standing", "acquisition failed", "elected", "overstaying", "ended", "kind 6"}
	for i, k := range []leader.EventKind{0, leader.EventStanding, leader.EventAcquisitionFailed, leader.EventElected,
		leader.EventOverstaying, leader.EventEnded, leader.EventEnded + 1} {
		if k.String() != want[i] {
			t.Errorf("kind %d is %q, want %q", int(k), k, want[i])
		}
	}
}

// An observer may end its goroutine, as a test's FailNow does.
func TestObserverThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(exitingBook)
		began := time.Now()
		r := start(t, newSite(t, membackend.NewServer()), func(context.Context, leader.Term) error { return leader.ErrStop }, leader.WithObserver(b))
		<-r.done
		if got := b.take(); !slices.Equal(got, []string{"standing", "elected", "ended"}) || since(began) > 0 {
			t.Errorf("the observer was told %v after %v", got, since(began))
		}
	})
}

type exitingBook struct{ book }

func (b *exitingBook) Observe(ctx context.Context, e leader.Event) {
	b.book.Observe(ctx, e)
	if e.Kind == leader.EventStanding {
		runtime.Goexit()
	}
}

type slowBook struct {
	book
	gate chan struct{}
}

func (b *slowBook) Observe(ctx context.Context, e leader.Event) {
	if e.Kind == leader.EventStanding {
		<-b.gate
	}
	b.book.Observe(ctx, e)
}
