//go:build unix

package pg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// txPack tests locks in transactions of the caller, through a PgBouncer in transaction mode if the
// service has one.
func (s *Service) txPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I60", Name: "end-of-a-transaction-frees-its-lock", Run: s.txEnds,
			Why: "a lock that ends with the transaction can't outlive the work, and the work " +
				"can't outlive the lock"},
		{ID: "I61", Name: "transactions-and-leases-exclude-each-other", Run: s.txAgainstLease,
			Why: "a program may protect one resource by Acquire and by LockTx; both must be the " +
				"same lock, with one order of tokens"},
		{ID: "I62", Name: "callers-transaction-stays-as-it-was", Run: s.txUnchanged,
			Why: "a lock that is granted or refused in the middle of a caller's transaction " +
				"must not change its settings, and must leave the transaction usable"},
		{ID: "I63", Name: "cancelled-wait-of-a-transaction-leaves-nothing", Run: s.txCancelled,
			Why: "a caller that stops waiting must not leave a lock on a connection that others " +
				"use"},
		{ID: "I64", Name: "transactions-under-contention", Run: s.txContention,
			Why: "the purpose of the lock is that only one transaction has it at a time"},
		{ID: "I65", Name: "transaction-may-wait-for-longer-than-the-ttl", Run: s.txWaits,
			Why: "the server ends a Locker's idle connection after the TTL; the token must be " +
				"available all the same when the wait is over"},
		{ID: "I66", Name: "snapshot-of-before-the-lock-is-refused", Run: s.txSnapshot,
			Why: "at REPEATABLE READ and SERIALIZABLE the request for the lock fixes the transaction's snapshot, " +
				"so the transaction would not see what the last holder has written"},
		{ID: "I67", Name: "transaction-that-has-ended-gets-no-token", Run: s.txGone,
			Why: "by then another holder may have the lock, and its token would be the smaller " +
				"one"},
		{ID: "I68", Name: "waiter-survives-a-deadlock-of-transactions", Run: s.txDeadlock,
			Why: "two transactions that take a lock and a row in different orders are in a " +
				"deadlock; the server may end the statement of a waiter in place of theirs"},
	}
}

// txPool is a pool of the caller's.
func (s *Service) txPool(t conformance.T) *pgxpool.Pool {
	t.Helper()
	rawURL := s.URL
	if s.bouncer != nil {
		rawURL = itest.Changed(rawURL, func(u *url.URL) { u.Path = "/" + transactionMode })
	}
	pool, err := pgxpool.New(t.Context(), rawURL)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func begin(t conformance.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	return beginAt(t, pool, "")
}

func beginAt(t conformance.T, pool *pgxpool.Pool, level pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
	if err != nil {
		t.Fatalf("Begin = %v", err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

func lockTx(t conformance.T, l locker.Locker, tx pgx.Tx, name string) locker.Token {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), step.Limit)
	defer cancel()
	token, err := concrete(l).LockTx(ctx, tx, name)
	if err != nil {
		t.Fatalf("LockTx = %v, want nil", err)
	}
	return token
}

// txHeld fails unless nobody else gets the lock, neither for a transaction nor as a lease.
func txHeld(t conformance.T, l locker.Locker, pool *pgxpool.Pool, name string) {
	t.Helper()
	if _, err := locker.TryAcquire(t.Context(), l, name); !errors.Is(err, locker.ErrHeld) {
		t.Fatalf("TryAcquire of a lock that a transaction has = %v, want ErrHeld", err)
	}
	other := begin(t, pool)
	if token, err := concrete(l).TryLockTx(t.Context(), other, name); !errors.Is(err, locker.ErrHeld) {
		t.Fatalf("TryLockTx of a lock that somebody has = %v, %v, want ErrHeld", token, err)
	}
	if _, err := other.Exec(t.Context(), "select 1"); err != nil {
		t.Errorf("after a TryLockTx that was refused, the transaction fails: %v", err)
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Errorf("Rollback = %v, want nil", err)
	}
}

// txAgainstLease has a transaction wait for a lease, and the tokens of both rise over all that was
// given to either.
func (s *Service) txAgainstLease(t conformance.T, _ *conformance.Harness) {
	pool, l, other := s.txPool(t), step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t))
	name := step.LockName(t)
	var last locker.Token
	for range 10 {
		lease := step.Acquire(t, other, name)
		later(t, last, lease.Token())
		txHeld(t, l, pool, name)
		tx, locked := begin(t, pool), make(chan locker.Token, 1)
		go func() {
			token, err := concrete(l).LockTx(t.Context(), tx, name)
			if err != nil {
				t.Errorf("LockTx = %v, want nil", err)
			}
			locked <- token
		}()
		step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 1) })
		step.Release(t, lease)
		last = <-locked
		later(t, lease.Token(), last)
		txHeld(t, other, pool, name)
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatalf("Commit = %v, want nil", err)
		}
	}
}

// txWaits has no lease in the Locker whose connection the token is taken on.
func (s *Service) txWaits(t conformance.T, _ *conformance.Harness) {
	pool, name := s.txPool(t), step.LockName(t)
	l, other := step.CloseAtEnd(t, itest.OpenURL(t, s.with("ttl", itest.ShortTTL.String()))), step.CloseAtEnd(t, s.open(t))
	lease := step.Acquire(t, other, name, locker.WithTTL(itest.LongTTL))
	tx, locked := begin(t, pool), make(chan error, 1)
	go func() {
		token, err := concrete(l).LockTx(t.Context(), tx, name)
		if err == nil && token <= lease.Token() {
			err = fmt.Errorf("token %v after %v", token, lease.Token())
		}
		locked <- err
	}()
	step.Pass(t, 3*itest.ShortTTL)
	step.Release(t, lease)
	if err := <-locked; err != nil {
		t.Errorf("LockTx that waited for longer than the TTL = %v, want nil", err)
	}
}

// txUnchanged compares all settings, before and after, and writes in the transaction.
func (s *Service) txUnchanged(t conformance.T, _ *conformance.Harness) {
	s.exec(t, "create table work (n int)", "grant all on work to public")
	t.Cleanup(func() { s.exec(t, "drop table work") })
	pool, l, other := s.txPool(t), step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t))
	obstacle := step.Acquire(t, other, step.LockName(t))
	settings := func(tx pgx.Tx) map[string]string {
		t.Helper()
		rows, err := tx.Query(t.Context(), "select name, setting from pg_settings where name not like 'in_hot_standby'")
		if err != nil {
			t.Fatalf("%v", err)
		}
		all := make(map[string]string)
		var name, value string
		if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error { all[name] = value; return nil }); err != nil {
			t.Fatalf("%v", err)
		}
		return all
	}
	for _, commit := range []bool{true, false} {
		tx := begin(t, pool)
		for _, statement := range []string{
			"set local lock_timeout = '10s'", "set local statement_timeout = '11s'", "set local idle_in_transaction_session_timeout = '12s'",
			"set local synchronous_commit = off", "set local search_path = pg_temp", "insert into public.work values (1)",
		} {
			if _, err := tx.Exec(t.Context(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
		before := settings(tx)
		name := step.LockName(t)
		lockTx(t, l, tx, name)
		if _, err := concrete(l).TryLockTx(t.Context(), tx, obstacle.Name()); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryLockTx = %v, want ErrHeld", err)
		}
		after := settings(tx)
		for _, name := range slices.Sorted(maps.Keys(before)) {
			if before[name] != after[name] {
				t.Errorf("%s was %q before LockTx, and is %q after it", name, before[name], after[name])
			}
		}
		txHeld(t, other, pool, name)
		if _, err := tx.Exec(t.Context(), "insert into public.work values (2)"); err != nil {
			t.Errorf("after LockTx the transaction fails: %v", err)
		}
		if !commit {
			continue // rolled back at the end
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatalf("Commit = %v, want nil", err)
		}
		if n := admin[int](t, s, "select count(*) from work"); n != 2 {
			t.Errorf("the transaction has written %d rows, want 2", n)
		}
	}
}
