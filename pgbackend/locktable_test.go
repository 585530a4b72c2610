package pgbackend_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// A Locker may have half of the locks for which the server's table has room, as documented. The
// number is fixed when it is opened.
func TestLockLimit(t *testing.T) {
	if got := pgbackend.LockLimit(64, 100, 20); got != 64*120/2 {
		t.Errorf("LockLimit = %d, want half of max_locks_per_transaction * (max_connections + max_prepared_transactions)", got)
	}
	for _, c := range []struct{ limit, waiters, want int }{{100, 0, 100}, {100, 8, 84}, {3, 2, 0}} {
		got, full, then := pgbackend.Names(c.limit, c.waiters)
		if got != c.want || !errors.Is(full, pgbackend.ErrLockTable) || !strings.Contains(full.Error(), "max_locks_per_transaction") || then != nil {
			t.Errorf("with a limit of %d and %d waiters' connections: %d names, then %v, and when one was given back %v, want %d, ErrLockTable, and nil",
				c.limit, c.waiters, got, full, then, c.want)
		}
	}
}

// The limit counts names that are in use: what was released makes room.
func TestLockLimitOfALocker(t *testing.T) {
	f := newFake(t)
	f.change(func(f *fake) { f.locksPerTx = 1 }) // 100 connections
	l := open(t, f)
	var leases []locker.Lease
	for i := range 50 {
		lease, err := locker.TryAcquire(t.Context(), l, fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, lease)
	}
	if _, err := locker.TryAcquire(t.Context(), l, "one more"); !errors.Is(err, pgbackend.ErrLockTable) || errors.Is(err, locker.ErrHeld) {
		t.Errorf("TryAcquire beyond half of the table = %v, want ErrLockTable", err)
	}
	if _, err := locker.TryAcquire(t.Context(), l, "7"); !errors.Is(err, locker.ErrHeld) {
		t.Errorf("TryAcquire of a lock that this Locker has = %v, want ErrHeld", err)
	}
	if err := leases[0].Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := locker.TryAcquire(t.Context(), l, "one more"); err != nil {
		t.Errorf("TryAcquire when another lock was released = %v, want a lease", err)
	}
}

// The server's own error about a full table is named like the Locker's.
func TestFullTableOfTheServer(t *testing.T) {
	f := newFake(t)
	l := open(t, f)
	if _, err := locker.TryAcquire(t.Context(), l, "other"); err != nil {
		t.Fatal(err)
	}
	f.change(func(f *fake) {
		f.before = func(sql string) string {
			if fakeTry.MatchString(sql) {
				return "53200 out of shared memory"
			}
			return ""
		}
	})
	if _, err := locker.TryAcquire(t.Context(), l, "a"); !errors.Is(err, pgbackend.ErrLockTable) || !strings.Contains(err.Error(), "max_locks_per_transaction") {
		t.Errorf("TryAcquire on a server whose table is full = %v, want ErrLockTable and the setting's name", err)
	}
}

// Another lack of memory has the same SQLSTATE, in any language.
func TestServerWithoutMemory(t *testing.T) {
	f := newFake(t)
	l := open(t, f)
	f.change(func(f *fake) {
		f.before = func(sql string) string {
			if fakeTry.MatchString(sql) {
				return "53200 Speicher aufgebraucht"
			}
			return ""
		}
	})
	if _, err := locker.TryAcquire(t.Context(), l, "a"); err == nil || errors.Is(err, pgbackend.ErrLockTable) || !strings.Contains(err.Error(), "53200") {
		t.Errorf("TryAcquire on a server without memory = %v, want the server's error, and not ErrLockTable", err)
	}
}

// So it is for a waiter, whose statement takes two locks more.
func TestFullTableUnderAWaiter(t *testing.T) {
	f := newFake(t)
	l := open(t, f)
	f.somebodyHas("a")
	f.change(func(f *fake) {
		f.before = func(sql string) string {
			if fakeWait.MatchString(sql) {
				return "53200 out of shared memory"
			}
			return ""
		}
	})
	if _, err := l.Acquire(t.Context(), "a"); !errors.Is(err, pgbackend.ErrLockTable) || errors.Is(err, locker.ErrHeld) {
		t.Errorf("Acquire of a lock that is held, on a server whose table is full = %v, want ErrLockTable", err)
	}
}

// And for a transaction, which takes one lock at once, and two when it waits.
func TestFullTableUnderATransaction(t *testing.T) {
	l := open(t, newFake(t))
	for what, tx := range map[string]*fullTx{
		"at once":       {},
		"when it waits": {answeringTx: answeringTx{answers: []string{"held", "0"}}},
	} {
		if _, err := l.LockTx(t.Context(), tx, "a"); !errors.Is(err, pgbackend.ErrLockTable) || errors.Is(err, locker.ErrHeld) {
			t.Errorf("LockTx on a server whose table is full, %s = %v, want ErrLockTable", what, err)
		}
	}
}

// fullTx is a transaction on a server that has no room for a further lock.
type fullTx struct{ answeringTx }

func (tx *fullTx) QueryRow(context.Context, string, ...any) pgx.Row { return tx }

func (tx *fullTx) Scan(dest ...any) error {
	if len(tx.answers) == 0 {
		return errFull
	}
	return tx.answeringTx.Scan(dest...)
}

func (tx *fullTx) Exec(_ context.Context, sql string, _ ...any) (pgconn.CommandTag, error) {
	if strings.Contains(sql, "pg_advisory_xact_lock(") {
		return pgconn.CommandTag{}, errFull
	}
	return pgconn.CommandTag{}, nil
}

var errFull = &pgconn.PgError{Severity: "ERROR", Code: "53200", Message: "out of shared memory", Hint: fakeHint}
