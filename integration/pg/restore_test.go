//go:build unix

package pg

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/images"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/pgbackend"
)

// shell runs a command in a server's container. Postgres' own programs find the server there by
// their environment. After they have ended, their sessions may exist for some moments, with locks
// on everything that they have read, which is much for a small server.
func (n *pgNode) shell(t conformance.T, command string) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		script := "export PGHOST=127.0.0.1 PGUSER=" + pgAdmin + " PGPASSWORD=" + pgPassword + " PGPORT=$0\n" + command
		_, err := images.Docker(ctx, "exec", n.ID, "bash", "-euc", script, strconv.Itoa(n.port))
		return err
	})
	step.Eventually(t, itest.ShortWait, func() error {
		there, err := pgValue[int](t.Context(), n, "select count(*) from pg_stat_activity where application_name in ('pg_dump', 'pg_restore')")
		if err == nil && there > 0 {
			err = fmt.Errorf("%d sessions of Postgres' own programs are still there", there)
		}
		return err
	})
}

const (
	pgDumped   = "pg_dump --format=custom --file=/tmp/dump " + pgDatabase
	pgRestored = "pg_restore --dbname=" + pgDatabase + " /tmp/dump"
	pgCleaned  = "pg_restore --clean --if-exists --dbname=" + pgDatabase + " /tmp/dump" // over what is there
	pgAfresh   = "dropdb --force " + pgDatabase + "; createdb --owner=" + pgUser + " " + pgDatabase
)

// Tokens rise over a dump that is restored, though the sequence is then where it was when it was
// dumped. A Locker that was open all the time gives none that is too small either.
func TestPostgresDumpAndRestore(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	node := s.nodes[0]
	other, err := Start(t.Context(), "postgres")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		what    string
		to      *Service
		restore func()
	}{
		{"over what is there", s, func() { node.shell(t, pgCleaned) }},
		{"into a new database", s, func() { node.shell(t, pgAfresh+"; "+pgRestored) }},
		{"on another server", other, func() {
			file := filepath.Join(t.TempDir(), "dump")
			itest.Docker(t, []string{node.ID + ":/tmp/dump", file}, "cp")
			itest.Docker(t, []string{file, other.nodes[0].ID + ":/tmp/dump"}, "cp")
			other.nodes[0].shell(t, pgAfresh+"; "+pgRestored)
		}},
	} {
		t.Run(tc.what, func(t *testing.T) {
			l := step.CloseAtEnd(t, s.open(t))
			before := spend(t, 50, l)
			node.shell(t, pgDumped)
			last := spend(t, 200, l, step.CloseAtEnd(t, s.open(t)))
			tc.restore()
			token := step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, tc.to.open(t)), step.LockName(t))
			t.Logf("token %v when it was dumped, %v when it was restored, and %v then", before, last, token)
			later(t, last, token)
			if tc.to == s {
				later(t, last, step.FreeWithin(t, itest.ShortWait, l, step.LockName(t)))
			}
		})
	}
}

// A Locker that connects before a restore has brought its schema back doesn't make it again: it would
// begin with an early epoch, and the restore would fail.
func TestPostgresConnectDuringARestore(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	node := s.nodes[0]
	l, name := step.CloseAtEnd(t, s.open(t)), step.LockName(t)
	spend(t, 50, l)
	node.shell(t, pgDumped)
	last := spend(t, 200, l)
	node.shell(t, pgAfresh)
	for range 3 {
		if _, err := locker.TryAcquire(t.Context(), l, name); err == nil {
			t.Fatal("TryAcquire in an empty database = nil: the schema was made again")
		}
	}
	node.shell(t, pgRestored)
	token := step.FreeWithin(t, itest.ShortWait, l, name)
	later(t, last, token)
	later(t, token, step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.open(t)), name))
}

// A dump from before the first Locker has no epoch. A Locker that is open doesn't begin it again with the
// number of the timeline, and goes on when it was raised by hand.
func TestPostgresRestoreFromBeforeTheFirstLocker(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	node := s.nodes[0]
	s.exec(t, "drop schema if exists locker cascade")
	if _, err := s.txPool(t).Exec(t.Context(), pgbackend.Migration("locker"), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	node.shell(t, pgDumped)
	l, name := step.CloseAtEnd(t, s.open(t)), step.LockName(t)
	last := spend(t, 50, l)
	node.shell(t, pgCleaned)
	step.Eventually(t, itest.ShortWait, func() error {
		lease, err := locker.TryAcquire(t.Context(), l, name)
		switch {
		case err == nil:
			t.Fatalf("TryAcquire after the restore = token %v, want an error: %v was given out before", lease.Token(), last)
		case strings.Contains(err.Error(), "no epoch has begun"):
			return nil
		}
		return err
	})
	s.exec(t, "update locker.locker_epoch set epoch = greatest(epoch, "+last.String()+"::bigint >> 48) + 1, reached = 0")
	token := step.FreeWithin(t, itest.ShortWait, l, name)
	later(t, last, token)
	later(t, token, step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.open(t)), name))
}

// A lease outlives the sequence that its token is of: a restore that drops all objects first
// doesn't end sessions. Its Locker takes other locks all the same.
func TestPostgresRestoreUnderALease(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	node := s.nodes[0]
	l := step.CloseAtEnd(t, itest.OpenURL(t, s.with("ttl", itest.ShortTTL.String()))) // all on one connection
	lease := step.Acquire(t, l, step.LockName(t))
	node.shell(t, pgDumped)
	node.shell(t, pgCleaned)
	name := step.LockName(t)
	token := step.FreeWithin(t, itest.ShortWait, l, name)
	later(t, lease.Token(), token)
	later(t, token, step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.open(t)), name))
	step.WantLive(t, lease, step.CloseAtEnd(t, s.open(t)))
	step.Pass(t, 2*itest.ShortTTL)
	if err := lease.Err(); err != nil {
		t.Errorf("Err of the earlier lease, two TTLs later = %v, want nil", err)
	}
	again, _ := locker.TryAcquire(t.Context(), l, lease.Name())
	if again != nil {
		t.Error("the lock that is held was granted a second time, to the same Locker")
	}
	step.Release(t, lease)
	later(t, token, step.FreeWithin(t, itest.ShortWait, l, lease.Name()))
}

// The epoch has few values, and a Locker that is open goes on with the one that it knows. So
// nothing raises it that doesn't bring an older row back, and what looks like that only when nobody
// is connected.
func TestPostgresEpochStays(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	epoch := func(l locker.Locker) int64 {
		t.Helper()
		return int64(step.FreeWithin(t, itest.ShortWait, l, step.LockName(t))) >> 48
	}
	alone := func(l locker.Locker) {
		t.Helper()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		s.clear(t)
		step.Eventually(t, itest.ShortWait, func() error {
			if n := s.sessions(t); n > 0 {
				return fmt.Errorf("%d sessions of Lockers are still there", n)
			}
			return nil
		})
	}
	l := s.open(t)
	want := epoch(l)
	same := func(l locker.Locker, after string) {
		t.Helper()
		if got := epoch(l); got != want {
			t.Fatalf("epoch %d after %s, want %d as before", got, after, want)
		}
	}
	for _, sql := range []string{
		"select", // nothing
		"vacuum (freeze) locker.locker_epoch",
		"vacuum (full, freeze) locker.locker_epoch",
		"cluster locker.locker_epoch using locker_epoch_pkey",
		"select setval('locker.locker_token', last_value + 100000) from locker.locker_token", // the next one is written down
	} {
		alone(l)
		s.exec(t, sql)
		l = s.open(t)
		same(l, sql)
		s.exec(t, sql)
		same(l, sql)
		other := s.open(t)
		same(other, sql)
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s.exec(t, "update locker.locker_epoch set written = 0") // as of a tool that copies the table
	other := step.CloseAtEnd(t, s.open(t))
	same(other, "the row was copied, while another Locker was open")
	same(l, "the row was copied")
	spend(t, 10, other, l)
	alone(other)
	alone(l)
	want++
	for range 3 {
		l = s.open(t)
		same(l, "the row was copied, and all Lockers were closed")
		alone(l)
	}
}
