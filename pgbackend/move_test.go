package pgbackend_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// A lease moves from its waiter's connection to the shared one, whatever goes wrong on the way; but
// only when its waiter's session says that it had the lock until then: if that had ended before,
// somebody else may have had the lock meanwhile.
func TestMove(t *testing.T) {
	const ttl = time.Second // whose renewals are shorter than a connection without leases may be silent
	share, take, leave, only, gate := fakeStep1, fakeStep2, fakeStep3, fakeStep4, fakeStep5
	again := regexp.MustCompile(`CASE WHEN pg_advisory_unlock_shared\(`)
	for name, c := range map[string]struct {
		step *regexp.Regexp
		is   string // what becomes of it, the first time
		lost string

		repeats *regexp.Regexp // the statement that is sent once more than otherwise
	}{
		"nothing goes wrong":                      {},
		"the first step is refused":               {step: share, is: "no", lost: "any more"},
		"the first step's answer is late":         {step: share, is: "late"},
		"the connection ends with the first":      {step: share, is: "hang up", lost: "lost"},
		"the first step fails, executed":          {step: share, is: "executed, then 57014 canceling statement due to user request"},
		"the second step is refused":              {step: take, is: "no"},
		"the second step fails":                   {step: take, is: "53200 out of shared memory", repeats: again},
		"the second step's answer is late":        {step: take, is: "late", repeats: again},
		"the second step is never answered":       {step: take, is: "silence"},
		"the third step's answer is late":         {step: leave, is: "late"},
		"the third step fails":                    {step: leave, is: "57014 canceling statement due to user request", repeats: leave},
		"the third step fails, executed":          {step: leave, is: "executed, then 57014 canceling statement due to user request"},
		"the waiter's session had not the lock":   {step: leave, is: "no", lost: "any more"},
		"the waiter's session has ended by then":  {step: leave, is: "hang up", lost: "lost"},
		"the fourth step's answer is late":        {step: only, is: "late"},
		"the fourth step fails, executed":         {step: only, is: "executed, then 57014 canceling statement due to user request"},
		"the fourth step is never answered":       {step: only, is: "silence", lost: "lost"},
		"the shared session had not the lock":     {step: only, is: "no", lost: "any more"},
		"the shared session has ended by then":    {step: only, is: "hang up", lost: "lost"},
		"the fifth step's answer is late":         {step: gate, is: "late"},
		"the fifth step fails":                    {step: gate, is: "57014 canceling statement due to user request", repeats: gate},
		"the fifth step fails, executed":          {step: gate, is: "executed, then 57014 canceling statement due to user request"},
		"the waiter's session had not the gate":   {step: gate, is: "no", lost: "any more"},
		"the waiter's session ends with the gate": {step: gate, is: "hang up", lost: "lost"},
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
						if c.step == nil || done || !c.step.MatchString(sql) {
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
				for sql, most := range map[*regexp.Regexp]int{share: 1, again: 0, leave: 1, only: 1, gate: 1} {
					if sql == c.repeats {
						most++
					}
					if n := f.matching(sql); n > most || n < most && sql == c.repeats {
						t.Errorf("%q was sent %d times, want %d", sql, n, most)
					}
				}
				if c.step != nil && !done {
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

// steps are the statements of a move, in their order, and whether the waiter's session executes
// them.
var steps = []struct {
	is       *regexp.Regexp
	onWaiter bool
}{
	{fakeStep1, true}, {fakeStep2, false}, {fakeStep3, true}, {fakeStep4, false}, {fakeStep5, true},
}

// moving opens a Locker, and acquires a lock that somebody else has until then. at is called, with
// the server's mutex held, when a step (1 to 5) arrives at the server for the first time, before it
// is executed. It returns what to do, see fake.before.
func moving(t *testing.T, ttl time.Duration, at func(f *fake, step int) string) (*fake, locker.Locker, locker.Lease) {
	t.Helper()
	f, config := piped(t)
	l, err := pgbackend.New(t.Context(), config, pgbackend.WithDefaultTTL(ttl))
	if err != nil {
		t.Fatal(err)
	}
	f.somebodyHas("a")
	seen := make([]bool, len(steps))
	f.change(func(f *fake) {
		f.before = func(sql string) string {
			for i, step := range steps {
				if step.is.MatchString(sql) && !seen[i] {
					seen[i] = true
					return at(f, i+1)
				}
			}
			return ""
		}
	})
	lease, err := l.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatalf("Acquire = %v, want a lease", err)
	}
	return f, l, lease
}

// third is the answers that a third session would get which asks for a lock without waiting:
// exclusively, and in shared mode, for which it needs the gate first.
func (f *fake) third(key string) (exclusive, inSharedMode bool) {
	return f.locks[key] == nil && len(f.shared[key]) == 0, f.locks[key] == nil && f.gates[key] == nil
}

// kill ends a session. f.mu is held.
func (f *fake) kill(c *fakeConn) {
	_ = c.Close()
	f.free(c)
}

// sharedConn is the session that is not the waiter's.
func (f *fake) sharedConn() *fakeConn {
	for c := range f.conns {
		if c != f.waited {
			return c
		}
	}
	return nil
}

var keyOfA = fmt.Sprint(int64(pgbackend.KeyOf("locker", "locker:", "a")))

// In every state of a move a third session is refused the lock in both modes, and the end of either
// session is the end of the lease from the moment on at which the waiter's gives the lock back;
// before that only the waiter's is.
func TestMoveWhoseSessionsEnd(t *testing.T) {
	const ttl = time.Second
	for before := range len(steps) + 1 {
		for _, ends := range []string{"no", "the waiter's", "the shared"} {
			if before == 0 && ends != "no" {
				continue
			}
			t.Run(fmt.Sprintf("%s session ends before step %d", ends, before), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					reached, mustStay := 0, true // until a session is ended on which the lease depends
					refused := func(f *fake, when string) {
						if exclusive, inSharedMode := f.third(keyOfA); mustStay && (exclusive || inSharedMode) {
							t.Errorf("%s a third session is granted the lock exclusively: %v, in shared mode: %v, want neither", when, exclusive, inSharedMode)
						}
					}
					f, l, lease := moving(t, ttl, func(f *fake, step int) string {
						reached = max(reached, step)
						refused(f, fmt.Sprintf("before step %d", step))
						if step != before || ends == "no" {
							return ""
						}
						session := f.waited
						if ends == "the shared" {
							session = f.sharedConn()
						}
						mustStay = step < 3 && ends == "the shared"
						f.kill(session)
						if onWaiter := session == f.waited; onWaiter == steps[step-1].onWaiter {
							return "hang up"
						}
						return ""
					})
					time.Sleep(3 * ttl)
					f.change(func(f *fake) { refused(f, "after all steps") })
					if err := lease.Err(); mustStay && err != nil || !mustStay && !errors.Is(err, locker.ErrLost) {
						t.Errorf("Err = %v, and the lease must stay: %v", err, mustStay)
					}
					if mustStay && reached < len(steps) || reached < before {
						t.Errorf("the move has come to step %d: this test proves nothing", reached)
					}
					_ = lease.Release(t.Context())
					time.Sleep(ttl)
					f.isFree(t)
					if err := l.Close(); err != nil {
						t.Errorf("Close = %v, want nil", err)
					}
				})
			})
		}
	}
}

// isFree fails unless nobody holds anything.
func (f *fake) isFree(t *testing.T) {
	t.Helper()
	f.change(func(f *fake) {
		if len(f.locks)+len(f.shared)+len(f.gates) > 0 {
			t.Errorf("when it is released: %d locks are held exclusively, %d in shared mode, %d gates, want none", len(f.locks), len(f.shared), len(f.gates))
		}
	})
}

// A lease that isn't renewed in the background stays on its waiter's connection until its holder
// renews it, or another waiter needs the connection.
func TestMoveWithoutRenewal(t *testing.T) {
	const ttl = time.Second
	for name, move := range map[string]func(ctx context.Context, f *fake, l locker.Locker, lease locker.Lease) error{
		"a renewal by hand": func(ctx context.Context, _ *fake, _ locker.Locker, lease locker.Lease) error {
			return lease.Renew(ctx)
		},
		"another waiter": func(ctx context.Context, f *fake, l locker.Locker, _ locker.Lease) error {
			f.somebodyHas("b")
			_, err := l.Acquire(ctx, "b", locker.WithTTL(ttl))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, config := piped(t)
				l, err := pgbackend.New(t.Context(), config, pgbackend.WithWaiterConnections(1))
				if err != nil {
					t.Fatal(err)
				}
				f.somebodyHas("a")
				lease, err := l.Acquire(t.Context(), "a", locker.WithTTL(ttl), locker.WithoutRenewal())
				if err != nil {
					t.Fatalf("Acquire = %v, want a lease", err)
				}
				time.Sleep(ttl * 8 / 10)
				if n := f.matching(fakeStep1); n != 0 {
					t.Errorf("the lease moved %d times by itself, want 0", n)
				}
				if err := move(t.Context(), f, l, lease); err != nil {
					t.Fatal(err)
				}
				if n := f.matching(fakeStep5); n != 1 {
					t.Errorf("the lease moved %d times, want once", n)
				}
				if err := l.Close(); err != nil {
					t.Errorf("Close = %v, want nil", err)
				}
			})
		})
	}
}
