//go:build unix

package pg

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// What transactions at SERIALIZABLE have read is shown in pg_locks, too, and has a table of its own. A
// Locker is opened though there is as much of it as half of the lock table. Nor do holders and waiters
// of one lock count as several.
func TestPostgresPredicateLocks(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	const tables, together = smallLocks * 3 / 5, 10 // of one transaction: so many locks of tables need no room in the lock table
	pool := s.txPool(t)
	exec := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	drop := func() {
		for i := range tables {
			s.exec(t, fmt.Sprint("drop table if exists read_", i))
		}
	}
	drop()
	t.Cleanup(drop)
	for i := range tables {
		exec(fmt.Sprintf("create table read_%d (a int)", i))
	}
	// As long as this one goes on, what others have read meanwhile is kept.
	first := beginAt(t, pool, pgx.Serializable)
	if _, err := first.Exec(t.Context(), "select * from read_0"); err != nil {
		t.Fatal(err)
	}
	for from := 0; from < tables; from += together {
		tx := beginAt(t, pool, pgx.Serializable)
		for i := from; i < from+together; i++ {
			if _, err := tx.Exec(t.Context(), fmt.Sprint("select * from read_", i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := admin[int](t, s, "select count(*) from pg_locks where mode = 'SIReadLock'"); n < smallLocks/2 {
		t.Fatalf("%d locks of what was read, want %d at least: this test proves nothing", n, smallLocks/2)
	}
	step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.open(t)), step.LockName(t))
	if err := first.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}
