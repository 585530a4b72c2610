package pgbackend_test

import (
	"context"
	"testing"
	"testing/synctest"
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

// The same with a lease on that connection: the lease goes on there, and what is to come gets
// another connection.
func TestEpochThatIsOverUnderALease(t *testing.T) {
	for how, take := range map[string]func(l *pgbackend.Locker) (locker.Token, error){
		"a lease": func(l *pgbackend.Locker) (locker.Token, error) {
			lease, err := locker.TryAcquire(t.Context(), l, "c")
			if err != nil {
				return 0, err
			}
			return lease.Token(), nil
		},
		"a transaction": func(l *pgbackend.Locker) (locker.Token, error) {
			return l.LockTx(t.Context(), &answeringTx{answers: []string{"granted"}}, "c")
		},
	} {
		f := newFake(t)
		l := open(t, f)
		old, err := locker.TryAcquire(t.Context(), l, "a")
		if err != nil {
			t.Fatal(err)
		}
		f.change(func(f *fake) { f.raised++ })
		seen, err := locker.TryAcquire(t.Context(), l, "b", locker.WithTTL(time.Second)) // on another connection
		if err != nil {
			t.Fatal(err)
		}
		before := len(f.connections())
		if token, err := take(l); err != nil || token <= seen.Token() {
			t.Errorf("%s after token %v: token %v, %v, want a larger one", how, seen.Token(), token, err)
		}
		if n := len(f.connections()); n != before+1 {
			t.Errorf("%s: %d connections, and there were %d, want one more", how, n, before)
		}
		if err := old.Renew(t.Context()); err != nil {
			t.Errorf("%s: the lease from before: %v, want nil", how, err)
		}
	}
}

// Nor does the lease of a waiter whose connection is of the next epoch move to the one from before:
// it moves to a new one.
func TestMoveToAnotherEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Second
		f, config := piped(t)
		l, err := pgbackend.New(t.Context(), config, pgbackend.WithDefaultTTL(ttl))
		if err != nil {
			t.Fatal(err)
		}
		old, err := locker.TryAcquire(t.Context(), l, "b")
		if err != nil {
			t.Fatal(err)
		}
		shared := f.connections()
		f.change(func(f *fake) { f.raised++ })
		f.somebodyHas("a")
		lease, err := l.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * ttl)
		f.change(func(f *fake) {
			if has := f.locks[keyOfA]; has == nil || has == f.waited || shared[has] {
				t.Errorf("the lease has not moved to another connection than those from before")
			}
		})
		for _, err := range []error{old.Err(), lease.Err(), l.Close()} {
			if err != nil {
				t.Errorf("%v, want nil", err)
			}
		}
	})
}
