package pgbackend_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// A late answer renews what was granted before its statement was sent. The answer that grants a lease is none
// to its renewals.
func TestGrantIsNoRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, config := piped(t)
		l, err := pgbackend.New(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		f.change(func(f *fake) { f.slow = time.Millisecond })
		time.Sleep(time.Second)
		lease, err := locker.TryAcquire(t.Context(), l, "x", locker.WithoutRenewal())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		f.silentAbout("")
		for range 2 {
			before := lease.Deadline()
			if err := lease.Renew(t.Context()); !errors.Is(err, locker.ErrNoAnswer) || !lease.Deadline().Equal(before) {
				t.Errorf("Renew while the server is silent = %v, deadline %v later, want ErrNoAnswer and the same deadline",
					err, lease.Deadline().Sub(before))
			}
		}
		_ = l.Close()
	})
}

// A late answer to a renewal of one lease doesn't stand for the question about a lease that came later.
func TestLateAnswerOfAnEarlierLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, config := piped(t)
		l, err := pgbackend.New(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		acquire := func(name string) locker.Lease {
			lease, err := locker.TryAcquire(t.Context(), l, name, locker.WithTTL(10*time.Second), locker.WithoutRenewal())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			return lease
		}
		f.change(func(f *fake) { f.slow = time.Millisecond })
		first := acquire("a")
		f.change(func(f *fake) { f.slow = 3 * time.Second })
		if err := first.Renew(t.Context()); !errors.Is(err, locker.ErrNoAnswer) {
			t.Errorf("Renew with an answer after 3 s = %v, want ErrNoAnswer", err)
		}
		time.Sleep(time.Second)
		f.change(func(f *fake) { f.slow = time.Millisecond })
		if err := first.Release(t.Context()); err != nil {
			t.Error(err)
		}
		second := acquire("b")
		before := second.Deadline()
		if err := second.Renew(t.Context()); err != nil || !second.Deadline().After(before) {
			t.Errorf("Renew = %v, deadline %v later, want nil and a later one", err, second.Deadline().Sub(before))
		}
		_ = l.Close()
	})
}
