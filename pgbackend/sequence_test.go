package pgbackend_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// takeAll takes tokens in all ways in which there are tokens.
func takeAll(t *testing.T, f *fake, l *pgbackend.Locker) map[string]func() locker.Token {
	acquire := func(opts ...locker.Option) locker.Token {
		lease, err := l.Acquire(t.Context(), "a", opts...)
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		return lease.Token()
	}
	return map[string]func() locker.Token{
		"a free lock":            func() locker.Token { return acquire() },
		"on another connection":  func() locker.Token { return acquire(locker.WithTTL(time.Second)) },
		"a lock of somebody":     func() locker.Token { f.somebodyHas("a"); return acquire() },
		"a transaction's own":    func() locker.Token { return txToken(t, l) },
		"and a free lock again":  func() locker.Token { return acquire() },
		"after the session ends": func() locker.Token { f.endAll("57P01"); return acquire() },
	}
}

func txToken(t *testing.T, l *pgbackend.Locker) locker.Token {
	t.Helper()
	token, err := l.LockTx(context.Background(), &answeringTx{answers: []string{"granted"}}, "b")
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// A Locker gives out no token below one that it has had, whatever was done to the sequence.
func TestSequenceThatIsSetBack(t *testing.T) {
	f := newFake(t)
	l := open(t, f)
	last := txToken(t, l)
	for range 3 {
		for how, take := range takeAll(t, f, l) {
			f.change(func(f *fake) { f.seq = 5 })
			token := take()
			if token <= last {
				t.Errorf("the sequence was set back, and then %s: token %v after %v, want a larger one", how, token, last)
			}
			last = max(last, token)
		}
	}
}

// No session in which values are taken waits for the disk after each of them.
func TestValuesDoNotWaitForTheDisk(t *testing.T) {
	f := newFake(t)
	l := open(t, f)
	for how, take := range takeAll(t, f, l) {
		take()
		f.change(func(f *fake) {
			for c := range f.conns {
				if !c.lazy {
					t.Errorf("%s: a commit on connection %d waits for the disk", how, c.pid)
				}
			}
		})
	}
}

// What was given out is never further than a step from what was written down before.
func TestValuesAreWrittenDown(t *testing.T) {
	f := newFake(t)
	l := open(t, f)
	for range 3 {
		for how, take := range takeAll(t, f, l) {
			f.change(func(f *fake) { f.seq = f.reached + pgbackend.ReachStep - 3 })
			for range 5 {
				token := take()
				f.change(func(f *fake) {
					if value := int(token & pgbackend.MaxValue); value >= f.reached+pgbackend.ReachStep {
						t.Errorf("%s: value %d is in use, and %d is written down", how, value, f.reached)
					}
				})
			}
		}
	}
	if n := f.statements("UPDATE "); n == 0 {
		t.Error("nothing was written: this test proves nothing")
	}
}

// A connection from before the epoch was raised gives no tokens any more to a Locker that has seen
// the next epoch.
func TestConnectionOfAnEpochThatIsOver(t *testing.T) {
	f := newFake(t)
	l := open(t, f)
	f.change(func(f *fake) { f.raised++ })
	lease, err := locker.TryAcquire(t.Context(), l, "a", locker.WithTTL(time.Second)) // on another connection
	if err != nil {
		t.Fatal(err)
	}
	if token := txToken(t, l); token <= lease.Token() {
		t.Errorf("token %v after %v, want a larger one", token, lease.Token())
	}
}
