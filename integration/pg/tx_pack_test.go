//go:build unix

package pg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

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
			Why: "at REPEATABLE READ the request for the lock fixes the transaction's snapshot, " +
				"so the transaction would not see what the last holder has written"},
		{ID: "I67", Name: "transaction-that-has-ended-gets-no-token", Run: s.txGone,
			Why: "by then another holder may have the lock, and its token would be the smaller " +
				"one"},
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

// txContention adds to a number by a read and a write.
func (s *Service) txContention(t conformance.T, _ *conformance.Harness) {
	s.exec(t, "create table work (n int, token int8)", "grant all on work to public", "insert into work values (0, 0)")
	t.Cleanup(func() { s.exec(t, "drop table work") })
	pool, name := s.txPool(t), step.LockName(t)
	lockers := []locker.Locker{step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t))}
	const contenders, sections = 6, 20
	problems := make([]error, contenders)
	ctx, cancel := context.WithTimeout(t.Context(), step.Limit)
	defer cancel()
	var all sync.WaitGroup
	for i := range contenders {
		all.Go(func() {
			for range sections {
				problems[i] = errors.Join(problems[i], pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					return addInTx(ctx, lockers[i%len(lockers)], tx, name)
				}))
			}
		})
	}
	all.Wait()
	if err := errors.Join(problems...); err != nil {
		t.Fatalf("%v", err)
	}
	if n := admin[int](t, s, "select n from work"); n != contenders*sections {
		t.Errorf("%d additions of one make %d", contenders*sections, n)
	}
}

// addInTx reads and writes in two steps, and fails if its token is not larger than that of the one
// before.
func addInTx(ctx context.Context, l locker.Locker, tx pgx.Tx, name string) error {
	token, err := concrete(l).LockTx(ctx, tx, name)
	if err != nil {
		return err
	}
	var n int
	var before locker.Token
	if err := tx.QueryRow(ctx, "select n, token from work").Scan(&n, &before); err != nil {
		return err
	}
	if token <= before {
		return fmt.Errorf("token %v after %v", token, before)
	}
	time.Sleep(time.Millisecond) // so that another would come between
	_, err = tx.Exec(ctx, "update work set n = $1, token = $2", n+1, int64(token))
	return err
}

func (s *Service) txSnapshot(t conformance.T, _ *conformance.Harness) {
	pool, l, name := s.txPool(t), step.CloseAtEnd(t, s.open(t)), step.LockName(t)
	for level, refused := range map[pgx.TxIsoLevel]bool{
		pgx.ReadUncommitted: false, pgx.ReadCommitted: false, pgx.RepeatableRead: true, pgx.Serializable: false,
	} {
		tx := beginAt(t, pool, level)
		_, err := concrete(l).TryLockTx(t.Context(), tx, name)
		if errors.Is(err, errors.ErrUnsupported) != refused || err != nil != refused {
			t.Errorf("TryLockTx at the level %s = %v, want that it is refused: %v", level, err, refused)
		}
		if refused {
			step.FreeWithin(t, 0, l, name)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Errorf("Rollback = %v, want nil", err)
		}
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
