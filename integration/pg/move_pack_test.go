//go:build unix

package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// movePack is leases that move from their waiter's connection to the shared one, step by step (see
// pgbackend/move.go).
func (s *Service) movePack() []conformance.Case {
	return []conformance.Case{
		{ID: "I53", Name: "no-state-of-a-move-admits-anybody", Run: s.moveRefuses,
			Why: "while a lock is moved it is in shared mode for a moment, and excludes no " +
				"other session that asks for shared mode; after the move it must be exclusive " +
				"again"},
		{ID: "I54", Name: "move-ends-with-its-sessions", Run: s.moveEnds,
			Why: "while a lease depends on two sessions, the end of either session must end the " +
				"lease, and must leave nothing in the other session"},
		{ID: "I55", Name: "move-waits-for-a-stranger", Run: s.moveBesideStranger,
			Why: "another program may use the same advisory key; that must not cost a lease, " +
				"and callers that use the gate must still exclude each other"},
	}
}

// noted keeps the first error of several goroutines.
type noted struct {
	mu  sync.Mutex
	err error
}

func (n *noted) add(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil {
		n.err = err
	}
}

func (n *noted) first() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

func (s *Service) moveRefuses(t conformance.T, _ *conformance.Harness) {
	for range rounds(t, 2, 50) {
		var seen noted
		var mu sync.Mutex
		var steps []int
		m := s.mover(t, func(m *pgMover, at int) {
			mu.Lock()
			if n := len(steps); at != 2 || n == 0 || steps[n-1] != 2 { // which is repeated if its answer takes an eighth of the TTL
				steps = append(steps, at)
			}
			mu.Unlock()
			seen.add(m.refused(fmt.Sprint("before step ", at)))
		})
		step.Eventually(t, itest.ShortWait, func() error { return errors.Join(m.hasMoved(t), m.lease.Err()) })
		seen.add(m.refused("after all steps"))
		if err := seen.first(); err != nil {
			t.Errorf("%v", err)
		}
		mu.Lock()
		if got := fmt.Sprint(steps); got != "[1 2 3 4 5]" {
			t.Errorf("the steps were %v, want each once", got)
		}
		mu.Unlock()
		if err := m.lease.Renew(t.Context()); err != nil { // so that the answer to step 5 has been read
			t.Errorf("Renew = %v, want nil", err)
		}
		admin[int](t, s, "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = $1 and not exists"+
			" (select from pg_locks l where l.pid = pg_stat_activity.pid and objsubid = 1 and locktype = 'advisory')", m.app)
		step.Pass(t, pgMoverTTL)
		step.WantLive(t, m.lease, step.CloseAtEnd(t, s.open(t))) // it doesn't depend on its waiter's session any more
		step.Release(t, m.lease)
		step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.open(t)), m.name)
	}
}

func (s *Service) moveEnds(t conformance.T, _ *conformance.Harness) {
	for at := 1; at <= len(pgSteps); at++ {
		for _, waiters := range []bool{true, false} {
			which := map[bool]string{true: "the waiter's", false: "the shared"}[waiters]
			stays := at < 3 && !waiters
			var seen noted
			var once sync.Once
			m := s.mover(t, func(m *pgMover, now int) {
				if now != at {
					return
				}
				once.Do(func() {
					of := m.sharedOf
					if waiters {
						of = m.waiterOf
					}
					ctx, cancel := context.WithTimeout(context.Background(), step.Limit)
					defer cancel()
					n, err := s.leader(ctx)
					if err == nil {
						var ended int
						ended, err = pgValue[int](ctx, n, "select count(pg_terminate_backend(pid, 5000)) from "+of)
						if err == nil && ended != 1 {
							err = fmt.Errorf("%d sessions were ended before step %d, want 1: this proves nothing", ended, at)
						}
					}
					seen.add(err)
				})
			})
			if stays {
				step.Eventually(t, 2*itest.ShortWait, func() error { return errors.Join(m.hasMoved(t), m.lease.Err()) })
				step.WantLive(t, m.lease, step.CloseAtEnd(t, s.open(t)))
				step.Release(t, m.lease)
			} else {
				step.LostWithin(t, itest.ShortWait, m.lease)
			}
			if err := seen.first(); err != nil {
				t.Errorf("%s session, step %d: %v", which, at, err)
			}
			step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.open(t)), m.name)
			step.Eventually(t, itest.ShortWait, func() error {
				if n := admin[int](t, s, "select count(*) from "+ofLocks+ofKey+"$1", pgKey(m.name)); n != 0 {
					return fmt.Errorf("%s session has ended before step %d: %d locks are left", which, at, n)
				}
				return nil
			})
		}
	}
}

func (s *Service) moveBesideStranger(t conformance.T, _ *conformance.Harness) {
	n, err := s.leader(t.Context())
	if err != nil {
		t.Fatalf("%v", err)
	}
	tx, err := n.admin.Begin(t.Context())
	if err != nil {
		t.Fatalf("%v", err)
	}
	leave := sync.OnceFunc(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	t.Cleanup(leave)
	var seen noted
	var mu sync.Mutex
	tries := 0
	m := s.mover(t, func(m *pgMover, at int) {
		seen.add(m.refused(fmt.Sprint("before step ", at)))
		mu.Lock()
		defer mu.Unlock()
		if at != 4 {
			return
		}
		if tries++; tries > 1 {
			return
		}
		var granted bool
		err := tx.QueryRow(context.Background(), "select pg_try_advisory_xact_lock_shared($1)", pgKey(m.name)).Scan(&granted)
		if err == nil && !granted {
			err = errors.New("the stranger doesn't get the key in shared mode: this proves nothing")
		}
		seen.add(err)
	})
	step.Pass(t, 3*pgMoverTTL)
	step.WantLive(t, m.lease, step.CloseAtEnd(t, s.open(t)))
	seen.add(m.refused("while another program has the key"))
	if modes := m.modes(t, m.sharedOf); modes != "ShareLock" {
		t.Errorf("the shared session has the lock in modes %q, want ShareLock", modes)
	}
	mu.Lock()
	if tries < 3 {
		t.Errorf("step 4 was taken %d times in 3 TTLs, want once in each renewal", tries)
	}
	mu.Unlock()
	leave()
	step.Eventually(t, itest.ShortWait, func() error { return errors.Join(m.hasMoved(t), m.lease.Err()) })
	if err := seen.first(); err != nil {
		t.Errorf("%v", err)
	}
	step.WantLive(t, m.lease, step.CloseAtEnd(t, s.open(t)))
	step.Release(t, m.lease)
}
