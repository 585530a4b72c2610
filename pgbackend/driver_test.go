package pgbackend_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

func open(t *testing.T, f *fake, opts ...pgbackend.Option) *pgbackend.Locker {
	t.Helper()
	l, err := pgbackend.New(t.Context(), f.config(t), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func refused(t *testing.T, f *fake, want error, says string) {
	t.Helper()
	l, err := pgbackend.New(t.Context(), f.config(t))
	if err == nil {
		_ = l.Close()
		t.Fatalf("New = a Locker, want an error that says %q", says)
	}
	if want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "sesame") {
		t.Errorf("New = %v, want %v, with %q and without the password", err, want, says)
	}
}

func TestServersRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fake)
		want   error
		says   string
	}{
		"too old":            {func(f *fake) { f.version = 130020 }, errors.ErrUnsupported, "Postgres 13: want 14 or later"},
		"standby":            {func(f *fake) { f.standby = true }, nil, "standby"},
		"read-only":          {func(f *fake) { f.readOnly = true }, nil, "default_transaction_read_only"},
		"lock table":         {func(f *fake) { f.taken = 3200 }, pgbackend.ErrLockTable, "max_locks_per_transaction"},
		"too many clients":   {failing("53300 sorry, too many clients already"), nil, "no connection left"},
		"missing permission": {failing("42501 permission denied"), nil, "Migration"},
		"newer schema":       {func(f *fake) { f.protocol = "3" }, errors.ErrUnsupported, "protocol 3"},
		"no protocol":        {func(f *fake) { f.protocol = "0" }, errors.ErrUnsupported, "protocol 0"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.change(c.change)
			refused(t, f, c.want, c.says)
		})
	}
}

// Schemas that were made by an older version are used as they are.
func TestProtocols(t *testing.T) {
	for _, protocol := range []string{"", "1", "2"} {
		f := newFake(t)
		f.change(func(f *fake) { f.protocol = protocol })
		if _, err := locker.TryAcquire(t.Context(), open(t, f), "a"); err != nil {
			t.Errorf("TryAcquire in a schema of protocol %q = %v, want a lease", protocol, err)
		}
	}
	f := newFake(t)
	l := open(t, f)
	f.change(func(f *fake) { f.protocol = "3" }) // raised while a Locker is open: its next connection finds out
	if _, err := locker.TryAcquire(t.Context(), l, "a", locker.WithTTL(time.Second)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("TryAcquire on a new connection to a schema of protocol 3 = %v, want ErrUnsupported", err)
	}
}

// failing makes the statement about the epoch fail.
func failing(with string) func(*fake) {
	return func(f *fake) {
		f.before = func(sql string) string {
			if strings.Contains(sql, "pg_control_system") {
				return with
			}
			return ""
		}
	}
}

// lost waits for the loss of a lease, which names its cause.
func lost(t *testing.T, lease locker.Lease, says string) {
	t.Helper()
	select {
	case <-lease.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("Done is open, and the session has ended")
	}
	if err := lease.Err(); !errors.Is(err, locker.ErrLost) || !strings.Contains(err.Error(), says) {
		t.Errorf("Err = %v, want ErrLost and %q", err, says)
	}
}

// The end of a connection is known at once, with the server's word for it, and the next acquisition
// works.
func TestEndOfTheSessionIsPushed(t *testing.T) {
	f := newFake(t)
	l := open(t, f)
	for range 3 {
		lease, err := locker.TryAcquire(t.Context(), l, "a")
		if err != nil {
			t.Fatal(err)
		}
		f.endAll("57P05")
		lost(t, lease, "57P05")
		if err := lease.Release(t.Context()); !errors.Is(err, locker.ErrLost) {
			t.Errorf("Release = %v, want ErrLost", err)
		}
	}
}

// A server may end the session in the middle of a statement, in its own language; a pooler says
// less.
func TestLastWordIsHeard(t *testing.T) {
	for who, last := range map[string]*pgproto3.ErrorResponse{
		"a server":           {Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "57P01"},
		"a server in German": {Severity: "SCHWERWIEGEND", SeverityUnlocalized: "FATAL", Code: "57P01"},
		"a pooler":           {Severity: "FATAL", Code: "57P01"},
	} {
		f := newFake(t)
		l := open(t, f)
		lease, err := locker.TryAcquire(t.Context(), l, "a")
		if err != nil {
			t.Fatal(err)
		}
		f.change(func(f *fake) {
			f.last = last
			f.before = func(string) string { return "end" }
		})
		if err := lease.Renew(t.Context()); !errors.Is(err, locker.ErrLost) || !strings.Contains(err.Error(), "57P01") {
			t.Errorf("%s ends the session: Renew = %v, want ErrLost that names the reason", who, err)
		}
		f.change(func(f *fake) { f.before = nil })
	}
}

// A connection that leads to another session than before has lost its locks, whatever it says
// otherwise.
func TestOtherSessionIsALoss(t *testing.T) {
	f := newFake(t)
	l := open(t, f)
	lease, err := locker.TryAcquire(t.Context(), l, "a")
	if err != nil {
		t.Fatal(err)
	}
	f.change(func(f *fake) {
		for c := range f.conns {
			c.pid++
		}
	})
	if err := lease.Renew(t.Context()); !errors.Is(err, locker.ErrLost) {
		t.Errorf("Renew = %v, want ErrLost", err)
	}
	lost(t, lease, "another session")
}

func TestPoolerIsRefused(t *testing.T) {
	f := newFake(t)
	f.change(func(f *fake) {
		f.keyPID = 7
		f.before = func(sql string) string {
			if strings.HasPrefix(sql, "BEGIN") {
				return "08P01 transaction blocks not allowed in statement pooling mode"
			}
			return ""
		}
	})
	refused(t, f, pgbackend.ErrPooler, "session mode")
	f.change(func(f *fake) { f.before, f.shown = nil, "SELECT 1" }) // somebody else was there in between
	refused(t, f, pgbackend.ErrPooler, "session mode")
	f.change(func(f *fake) { f.shown = "" }) // each has a session of its own
	if n := f.statements("set_config"); n != 0 {
		t.Errorf("%d statements have set something for somebody else", n)
	}
	open(t, f)
}

// Two names with one key are refused, not shared: the session would be granted the second as well.
func TestCollision(t *testing.T) {
	f := newFake(t)
	l, err := pgbackend.NewWithKeys(t.Context(), f.config(t), func(string, string, string) pgbackend.Key { return 5 })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	lease, err := locker.TryAcquire(t.Context(), l, "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locker.TryAcquire(t.Context(), l, "b"); !errors.Is(err, pgbackend.ErrCollision) || errors.Is(err, locker.ErrHeld) {
		t.Errorf("TryAcquire of a name with the same key = %v, want ErrCollision", err)
	}
	if _, err := locker.TryAcquire(t.Context(), l, "a"); !errors.Is(err, locker.ErrHeld) {
		t.Errorf("TryAcquire of the same name = %v, want ErrHeld", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := locker.TryAcquire(t.Context(), l, "b"); err != nil {
		t.Errorf("TryAcquire when the other is released = %v, want a lease", err)
	}
}

// A statement that fails may have taken the lock before. It is given back, and nobody else of this
// Locker is granted it meanwhile.
func TestFailedStatementIsCleanedUp(t *testing.T) {
	f := newFake(t)
	l := open(t, f)
	other, err := locker.TryAcquire(t.Context(), l, "other") // so that the connection is kept
	if err != nil {
		t.Fatal(err)
	}
	before := f.matching(fakeGive)
	f.change(func(f *fake) {
		f.before = func(sql string) string {
			if fakeTry.MatchString(sql) {
				return "55P03 canceling statement due to lock timeout"
			}
			return ""
		}
	})
	if _, err := locker.TryAcquire(t.Context(), l, "a"); err == nil || errors.Is(err, locker.ErrHeld) {
		t.Errorf("TryAcquire that failed = %v, want the server's error", err)
	}
	f.change(func(f *fake) { f.before = nil })
	for end := time.Now().Add(10 * time.Second); f.matching(fakeGive) == before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what the statement may have taken was not given back")
		}
	}
	if err := other.Err(); err != nil {
		t.Errorf("the other lease: %v, want nil", err)
	}
}

func TestTTLs(t *testing.T) {
	f := newFake(t)
	l := open(t, f)
	for _, ttl := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} { // and the default
		if _, err := locker.TryAcquire(t.Context(), l, ttl.String(), locker.WithTTL(ttl)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := locker.TryAcquire(t.Context(), l, "default"); err != nil {
		t.Fatal(err)
	}
	if _, err := locker.TryAcquire(t.Context(), l, "one more", locker.WithTTL(4*time.Second)); !errors.Is(err, locker.ErrOption) {
		t.Errorf("TryAcquire with a fifth TTL = %v, want ErrOption", err)
	}
	if _, err := locker.TryAcquire(t.Context(), l, "short", locker.WithTTL(time.Millisecond)); !errors.Is(err, locker.ErrOption) {
		t.Errorf("TryAcquire with a TTL of a millisecond = %v, want ErrOption", err)
	}
}

func TestLockTxName(t *testing.T) {
	f := newFake(t)
	l, err := pgbackend.New(t.Context(), f.config(t))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.LockTx(t.Context(), nil, ""); !errors.Is(err, locker.ErrName) {
		t.Errorf("LockTx without a name = %v, want ErrName", err)
	}
	if _, err := l.TryLockTx(t.Context(), nil, ""); !errors.Is(err, locker.ErrName) {
		t.Errorf("TryLockTx without a name = %v, want ErrName", err)
	}
}

// What Open returns is a *Locker, so that its further methods can be found.
func TestOpenReturnsALocker(t *testing.T) {
	f := newFake(t)
	l, err := locker.Open(t.Context(), "postgres://joe:sesame@"+f.addr+"/d?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, ok := l.(*pgbackend.Locker); !ok {
		t.Errorf("Open = a %T, want a *pgbackend.Locker", l)
	}
	if l, err := locker.Open(t.Context(), "postgres://joe@"+f.addr+"/d?ttl=1ns"); err == nil || l != nil {
		t.Errorf("Open that fails = %v, %v, want nil and an error", l, err)
	}
}

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

func TestMessage(t *testing.T) {
	for want, c := range map[string]struct {
		kinds []string
		keys  []pgbackend.Key
	}{
		"SELECT 1, CASE WHEN pg_try_advisory_lock('5'::bigint) THEN nextval(7::regclass) END": {[]string{"take"}, []pgbackend.Key{5}},
		"SELECT 0, pg_advisory_unlock('5'::bigint), pg_advisory_unlock_shared('6'::bigint);":  {[]string{"give", "giveShared"}, []pgbackend.Key{5, 6}},
		"SELECT 0, pg_advisory_unlock_shared('5'::bigint), pg_advisory_unlock('5'::bigint);":  {[]string{"giveEither"}, []pgbackend.Key{5}},
		"SELECT 0, pg_advisory_unlock('6'::bigint);SELECT i, CASE WHEN k IS NULL THEN nextval(7::regclass) WHEN pg_try_advisory_lock(k) THEN nextval(7::regclass) END FROM (VALUES (1, '5'::bigint), (3, NULL::bigint)) t(i, k)": {
			[]string{"take", "give", "token"}, []pgbackend.Key{5, 6, 0}},
		"SELECT i, CASE WHEN k IS NULL THEN nextval(7::regclass) WHEN pg_try_advisory_lock(k) THEN nextval(7::regclass) END FROM (VALUES (2, '6'::bigint), (4, '8'::bigint)) t(i, k)": {
			[]string{"-take", "take", "-give", "take"}, []pgbackend.Key{5, 6, 7, 8}},
		"": {[]string{"-take", "-give"}, []pgbackend.Key{5, 6}},
	} {
		if got := pgbackend.Message(c.kinds, c.keys); got != want {
			t.Errorf("the message for %v is\n%s\nwant\n%s", c.kinds, got, want)
		}
	}
}

// What a connection costs, as docs/postgres.md says: a look, the settings, a function call, the
// objects, the epoch, the mark, and what is set last. A new Locker also looks at the lock table.
func TestStatementsOfAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, config := piped(t)
		l, err := pgbackend.New(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		if n := f.statements(""); n != 8+1 {
			t.Errorf("a new Locker has sent %d messages, want 9", n)
		}
		before := f.statements("")
		lease, err := locker.TryAcquire(t.Context(), l, "a", locker.WithTTL(time.Second)) // on another connection
		if err != nil {
			t.Fatal(err)
		}
		if n := f.statements("") - before; n != 8+2 {
			t.Errorf("a connection and an acquisition have sent %d messages, want 10", n)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.endAll("57P01")
		synctest.Wait() // for those who hear of it
		before = f.statements("")
		if _, err := locker.TryAcquire(t.Context(), l, "a"); err != nil { // which makes the connection again
			t.Fatal(err)
		}
		if n := f.statements("") - before; n != 8+2 {
			t.Errorf("a connection that was made again, and an acquisition, have sent %d messages, want 10", n)
		}
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	})
}
