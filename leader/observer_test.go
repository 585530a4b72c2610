package leader_test

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

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
		}, leader.Rest(0), leader.Observe(b))
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
			leader.Observe(slow), leader.Observe(b))
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

// An observer may end its goroutine, as a test's FailNow does.
func TestObserverThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(exitingBook)
		began := time.Now()
		r := start(t, newSite(t, membackend.NewServer()), func(context.Context, leader.Term) error { return leader.ErrStop }, leader.Observe(b))
		<-r.done
		if got := b.take(); !slices.Equal(got, []string{"standing", "elected", "ended"}) || since(began) > 0 {
			t.Errorf("the observer was told %v after %v", got, since(began))
		}
	})
}

type exitingBook struct{ book }

func (b *exitingBook) Standing() {
	b.book.Standing()
	runtime.Goexit()
}

type slowBook struct {
	book
	gate chan struct{}
}

func (b *slowBook) Standing() {
	<-b.gate
	b.book.Standing()
}
