//go:build unix

package pg

import (
	"context"
	"fmt"
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// pathPack tests a search_path that names a schema of another user.
func (s *Service) pathPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I52", Name: "functions-of-others-are-never-called", Run: s.searchPath,
			Why: "a role's search_path may name another user's schema first; that schema's " +
				"functions would run with the Locker's rights"},
	}
}

// trap is a schema with functions, and operators, that have the names of Postgres' own, and count
// their calls.
func trap() []string {
	sql := []string{"create schema trap", "create sequence trap.calls", "grant usage on schema trap to public", "grant usage on sequence trap.calls to public"}
	function := func(name, args, returns, call string) {
		sql = append(sql, fmt.Sprintf("create function trap.%s(%s) returns %s language plpgsql as $$ begin perform pg_catalog.nextval('trap.calls'); return %s; end $$",
			name, args, returns, call))
	}
	function("current_setting", "text", "text", "pg_catalog.current_setting($1)")
	function("set_config", "text, text, boolean", "text", "pg_catalog.set_config($1, $2, $3)")
	function("pg_backend_pid", "", "integer", "pg_catalog.pg_backend_pid()")
	function("pg_is_in_recovery", "", "boolean", "pg_catalog.pg_is_in_recovery()")
	function("pg_try_advisory_xact_lock", "bigint", "boolean", "pg_catalog.pg_try_advisory_xact_lock($1)")
	for _, t := range []string{"text", "integer", "bigint", "name"} {
		for function, operator := range map[string]string{"equal": "=", "differs": "<>"} {
			sql = append(sql, fmt.Sprintf("create function trap.%s(%s, %[2]s) returns boolean language plpgsql as $$ begin"+
				" perform pg_catalog.nextval('trap.calls'); return $1 operator(pg_catalog.%[3]s) $2; end $$", function, t, operator),
				fmt.Sprintf("create operator trap.%s (leftarg = %s, rightarg = %[2]s, function = trap.%[3]s)", operator, t, function))
		}
	}
	return sql
}

func (s *Service) searchPath(t conformance.T, _ *conformance.Harness) {
	step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.open(t)), step.LockName(t)) // what is made on first use is there
	t.Cleanup(func() { s.exec(t, "alter role "+pgUser+" reset all", "drop schema trap cascade") })
	s.exec(t, trap()...)
	s.exec(t, "alter role "+pgUser+" set search_path = trap, pg_catalog")
	admin[int](t, s, "select count(pg_terminate_backend(pid)) from pg_stat_activity where usename = $1", pgUser) // also a pooler's
	l, other, name := step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.LongTTL))
	waiter := step.StartAcquire(t, other, name, locker.WithTTL(itest.LongTTL))
	step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 1) })
	step.Release(t, lease)
	step.Release(t, waiter.Granted(t, itest.ShortWait))
	tx := begin(t, s.txPool(t))
	path := ""
	if err := tx.QueryRow(t.Context(), "show search_path").Scan(&path); err != nil || !strings.HasPrefix(path, "trap") {
		t.Fatalf("the search_path of the transaction is %q, %v: this case proves nothing", path, err)
	}
	lockTx(t, l, tx, step.LockName(t))
	if err := tx.Rollback(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("Rollback = %v", err)
	}
	if admin[bool](t, s, "select is_called from trap.calls") {
		t.Errorf("functions of somebody else were called %d times", admin[int](t, s, "select last_value from trap.calls"))
	}
}
