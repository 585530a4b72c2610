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
