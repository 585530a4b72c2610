package pgbackend_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// A lease moves from its waiter's connection to the shared one, whatever goes wrong on the way; but only when its waiter's session says that
// it had the lock until then: if that had ended before, somebody else may have had the lock meanwhile.
func TestMove(t *testing.T) {
	const (
		ttl   = time.Second // whose renewals are shorter than a connection without leases may be silent
		share = "SELECT CASE WHEN pg_advisory_lock_shared("
		take  = "pg_try_advisory_lock_shared("
		leave = "SELECT pg_advisory_unlock_shared("
		again = "CASE WHEN pg_advisory_unlock_shared("
	)
	for name, c := range map[string]struct {
		step string
		is   string // what becomes of it, the first time
		lost string

		repeats string // the statement that is sent once more than otherwise
	}{
		"nothing goes wrong":                     {},
		"the first step is refused":              {step: share, is: "no", lost: "any more"},
		"the first step's answer is late":        {step: share, is: "late"},
		"the connection ends with the first":     {step: share, is: "hang up", lost: "lost"},
		"the second step is refused":             {step: take, is: "no"},
		"the second step fails":                  {step: take, is: "53200 out of shared memory", repeats: again},
		"the second step's answer is late":       {step: take, is: "late", repeats: again},
		"the second step is never answered":      {step: take, is: "silence"},
		"the last step's answer is late":         {step: leave, is: "late"},
		"the last step fails":                    {step: leave, is: "57014 canceling statement due to user request", repeats: leave},
		"the waiter's session had not the lock":  {step: leave, is: "no", lost: "any more"},
		"the waiter's session has ended by then": {step: leave, is: "hang up", lost: "lost"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, config := piped(t)
				l, err := pgbackend.New(t.Context(), config)
				if err != nil {
					t.Fatal(err)
				}
				f.somebodyHas("a")
				done := false
				f.change(func(f *fake) {
					f.late = ttl * 4 / 10 // a renewal may take a quarter
					f.before = func(sql string) string {
						if c.step == "" || done || !strings.Contains(sql, c.step) {
							return ""
						}
						done = true
						return c.is
					}
				})
				lease, err := l.Acquire(t.Context(), "a", locker.WithTTL(ttl))
				if err != nil {
					t.Fatalf("Acquire = %v, want a lease", err)
				}
				time.Sleep(3 * ttl)
				if c.lost != "" {
					if err := lease.Err(); !errors.Is(err, locker.ErrLost) || !strings.Contains(err.Error(), c.lost) {
						t.Errorf("Err = %v, want ErrLost that speaks of %q", err, c.lost)
					}
				} else {
					f.change(func(f *fake) { _ = f.waited.Close() })
					time.Sleep(3 * ttl)
					if err := lease.Err(); err != nil {
						t.Errorf("when it has moved, and its waiter's connection has ended: %v, want nil", err)
					}
				}
				for sql, most := range map[string]int{share: 1, again: 0, leave: 1} {
					if sql == c.repeats {
						most++
					}
					if n := f.statements(sql); n > most || n < most && sql == c.repeats {
						t.Errorf("%q was sent %d times, want %d", sql, n, most)
					}
				}
				if c.step != "" && !done {
					t.Error("the step was never taken: this test proves nothing")
				}
				_ = lease.Release(t.Context())
				if err := l.Close(); err != nil {
					t.Errorf("Close = %v, want nil", err)
				}
			})
		})
	}
}

// A lease stays, on a server whose answers come too late for the steps of a move, and for some renewals.
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

// A waiter who has to make room for itself keeps no lease from being renewed, though the shared connection is silent.
func TestMakingRoomKeepsNoRenewalWaiting(t *testing.T) {
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
