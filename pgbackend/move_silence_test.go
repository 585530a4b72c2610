package pgbackend_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// A lease stays, on a server whose answers come too late for the steps of a move, and for some
// renewals.
func TestMoveOnASlowServer(t *testing.T) {
	const ttl = time.Second
	for _, answer := range []time.Duration{ttl / 8, ttl / 6, ttl / 5, ttl * 23 / 100} {
		t.Run(answer.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, config := piped(t)
				l, err := pgbackend.New(t.Context(), config)
				if err != nil {
					t.Fatal(err)
				}
				f.somebodyHas("a")
				f.change(func(f *fake) { f.slow = answer })
				lease, err := l.Acquire(t.Context(), "a", locker.WithTTL(ttl))
				if err != nil {
					t.Fatalf("Acquire = %v, want a lease", err)
				}
				time.Sleep(20 * ttl)
				if err := lease.Err(); err != nil {
					t.Errorf("Err = %v, want nil", err)
				}
				f.change(func(f *fake) { f.slow = 0 })
				time.Sleep(ttl)
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release = %v, want nil", err)
				}
				if err := l.Close(); err != nil {
					t.Errorf("Close = %v, want nil", err)
				}
			})
		})
	}
}

// A waiter that has to free a connection for itself keeps no lease from being renewed, though the
// shared connection is silent.
func TestFreeingAWaitersConnectionKeepsNoRenewalWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Second
		f, config := piped(t)
		l, err := pgbackend.New(t.Context(), config, pgbackend.WithWaiterConnections(1))
		if err != nil {
			t.Fatal(err)
		}
		f.somebodyHas("a")
		lease, err := l.Acquire(t.Context(), "a", locker.WithTTL(ttl))
		if err != nil {
			t.Fatalf("Acquire = %v, want a lease", err)
		}
		silent := false
		f.change(func(f *fake) {
			f.before = func(sql string) string {
				if !silent && strings.Contains(sql, "pg_try_advisory_lock_shared(") {
					silent = true
					return "silence"
				}
				return ""
			}
		})
		f.somebodyHas("b")
		ctx, cancel := context.WithTimeout(t.Context(), ttl/5) // before any renewal
		defer cancel()
		if _, err := l.Acquire(ctx, "b", locker.WithTTL(ttl)); err == nil || !silent {
			t.Fatalf("Acquire of a lock that is held = %v, and room was made: %v; this test proves nothing", err, silent)
		}
		time.Sleep(3 * ttl)
		if err := lease.Err(); err != nil {
			t.Errorf("Err = %v, want nil", err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	})
}

// A lease that is about to move stays where it is, though the shared connection that it should have
// moved to before has resigned, and is silent.
func TestMoveFromASilentConnectionKeepsNoRenewalWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Second
		failed := make(chan struct{})
		f, l, lease := moving(t, ttl, func(_ *fake, step int) string {
			if step != 2 {
				return ""
			}
			close(failed)
			return "53200 out of shared memory"
		})
		if _, err := l.Acquire(t.Context(), "b"); err != nil { // so that the shared connection isn't ended
			t.Fatal(err)
		}
		<-failed
		f.change(func(f *fake) { f.before = func(string) string { return "42P01 no such sequence" } })
		if _, err := l.Acquire(t.Context(), "c"); err == nil {
			t.Fatal("Acquire = a lease, want the shared connection to resign")
		}
		f.change(func(f *fake) { f.before, f.mute = nil, f.sharedConn() })
		time.Sleep(3 * ttl)
		if err := lease.Err(); err != nil {
			t.Errorf("Err = %v, want nil", err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release = %v, want nil", err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	})
}
