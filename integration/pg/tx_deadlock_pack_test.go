//go:build unix

package pg

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// txDeadlock has one transaction take the lock and then a row, and another one the row and then the
// lock, for which a lease is waited as well: the second transaction waits at the waiter's gate. The
// server ends the statement that has waited for deadlock_timeout first, which is the waiter's. The
// two transactions are then in a deadlock of their own, of which one is ended.
func (s *Service) txDeadlock(t conformance.T, _ *conformance.Harness) {
	s.exec(t, "create table things (n int)", "grant all on things to public", "insert into things values (1)")
	t.Cleanup(func() { s.exec(t, "drop table things") })
	pool, name := s.txPool(t), step.LockName(t)
	l, other := step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t))
	const ofTheRow = "select n from things for update"
	first, second := begin(t, pool), begin(t, pool)
	lockTx(t, l, first, name)
	if _, err := second.Exec(t.Context(), ofTheRow); err != nil {
		t.Fatalf("%v", err)
	}
	waiter := step.StartAcquire(t, other, name)
	step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 1) })

	ctx, cancel := context.WithTimeout(t.Context(), step.Limit)
	defer cancel()
	var failed [2]error
	var both sync.WaitGroup
	end := func(i int, tx pgx.Tx, wants func() error) {
		failed[i] = wants()
		_ = tx.Rollback(context.WithoutCancel(ctx))
	}
	both.Go(func() {
		end(0, second, func() error {
			_, err := concrete(l).LockTx(ctx, second, name)
			return err
		})
	})
	both.Go(func() {
		end(1, first, func() error {
			_, err := first.Exec(ctx, ofTheRow)
			return err
		})
	})
	both.Wait()
	if failed[0] == nil && failed[1] == nil {
		t.Errorf("no transaction was ended, want a deadlock")
	}
	step.Release(t, waiter.Granted(t, step.Limit))
}
