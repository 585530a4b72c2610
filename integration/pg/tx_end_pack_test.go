//go:build unix

package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// txEnds ends it by commit, by rollback, and by the end of its connection.
func (s *Service) txEnds(t conformance.T, _ *conformance.Harness) {
	pool, l, other := s.txPool(t), step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t))
	name := step.LockName(t)
	var last locker.Token
	for _, end := range []func(pgx.Tx) error{
		func(tx pgx.Tx) error { return tx.Commit(t.Context()) },
		func(tx pgx.Tx) error { return tx.Rollback(t.Context()) },
		func(tx pgx.Tx) error {
			pid := 0
			if err := tx.QueryRow(t.Context(), "select pg_backend_pid()").Scan(&pid); err != nil {
				return err
			}
			if !admin[bool](t, s, "select pg_terminate_backend($1)", pid) {
				return errors.New("the session of the transaction is not there")
			}
			return nil
		},
	} {
		tx := begin(t, pool)
		token := lockTx(t, l, tx, name)
		later(t, last, token)
		last = token
		txHeld(t, other, pool, name)
		waiter := step.StartAcquire(t, other, name)
		step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 1) })
		if err := end(tx); err != nil {
			t.Fatalf("the end of the transaction = %v, want nil", err)
		}
		lease := waiter.Granted(t, itest.ShortWait)
		later(t, last, lease.Token())
		last = lease.Token()
		step.Release(t, lease)
	}
	if left := s.residue(t); left != "" {
		t.Errorf("left on the server: %s", left)
	}
}

// txCancelled ends waits at any moment, also when they have just been granted.
func (s *Service) txCancelled(t conformance.T, _ *conformance.Harness) {
	pool, l, other := s.txPool(t), step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t))
	name := step.LockName(t)
	for i := range 20 {
		lease := step.Acquire(t, other, name)
		tx, locked := begin(t, pool), make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := concrete(l).LockTx(ctx, tx, name)
			locked <- err
		}()
		step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 1) })
		if i%2 == 0 {
			cancel()
			if err := <-locked; !errors.Is(err, context.Canceled) {
				t.Errorf("LockTx that was cancelled = %v, want Canceled", err)
			}
			step.WantLive(t, lease, l)
			step.Release(t, lease)
		} else {
			var both sync.WaitGroup
			both.Go(cancel)
			both.Go(func() { _ = lease.Release(t.Context()) })
			both.Wait()
			t.Logf("a cancelled LockTx at the same time as the release = %v", <-locked)
		}
		cancel()
		if err := tx.Rollback(t.Context()); err != nil {
			t.Logf("Rollback after a cancelled LockTx = %v", err)
		}
		step.FreeWithin(t, itest.ShortWait, other, name)
	}
}

// txGone ends the transaction while the request for its token is blocked because somebody alters
// the sequence.
func (s *Service) txGone(t conformance.T, _ *conformance.Harness) {
	pool, l, name := s.txPool(t), step.CloseAtEnd(t, s.open(t)), step.LockName(t)
	tx := begin(t, pool)
	pid := 0
	if err := tx.QueryRow(t.Context(), "select pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatalf("%v", err)
	}
	n, err := s.leader(t.Context())
	if err != nil {
		t.Fatalf("%v", err)
	}
	alter, err := n.admin.Begin(t.Context())
	if err != nil {
		t.Fatalf("%v", err)
	}
	back := sync.OnceFunc(func() { _ = alter.Rollback(context.WithoutCancel(t.Context())) })
	t.Cleanup(back)
	if _, err := alter.Exec(t.Context(), "alter sequence "+pgSequence+" cache 2"); err != nil {
		t.Fatalf("%v", err)
	}
	asked := make(chan error, 1)
	go func() {
		token, err := concrete(l).TryLockTx(t.Context(), tx, name)
		if err == nil {
			err = fmt.Errorf("token %v", token)
		} else {
			err = nil
		}
		asked <- err
	}()
	step.Eventually(t, itest.ShortWait, func() error {
		if s.heldLocks(t) == 0 {
			return errors.New("nobody has the lock")
		}
		return nil
	})
	admin[bool](t, s, "select pg_terminate_backend($1)", pid)
	step.Eventually(t, itest.ShortWait, func() error {
		if admin[bool](t, s, "select exists (select from pg_stat_activity where pid = $1)", pid) {
			return errors.New("the session has not ended")
		}
		return nil
	})
	back()
	if err := <-asked; err != nil {
		t.Errorf("TryLockTx of a transaction that has ended = %v, want an error", err)
	}
	step.FreeWithin(t, itest.ShortWait, l, name)
}
