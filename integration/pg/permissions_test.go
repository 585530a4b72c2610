//go:build unix

package pg

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/pgbackend"
)

// documentedGrants reads from the migration what a role needs that doesn't own what it makes.
func documentedGrants(t *testing.T, role string) (grants []string) {
	t.Helper()
	for _, match := range regexp.MustCompile(`(?m)^--\s+(GRANT .*) TO …;$`).FindAllStringSubmatch(pgbackend.Migration("locker"), -1) {
		privileges, on, _ := strings.Cut(strings.TrimPrefix(match[1], "GRANT "), " ON ")
		for privilege := range strings.SplitSeq(privileges, ", ") { // one each
			grants = append(grants, "grant "+privilege+" on "+on+" to "+role)
		}
	}
	if len(grants) < 3 {
		t.Fatalf("the migration documents %d grants", len(grants))
	}
	return grants
}

// A role that may do what the migration says can use a Locker, and needn't be allowed to make
// anything. If a single permission is missing, but for what is written for people, or nothing was
// made, opening one fails and says what to do.
func TestPostgresPermissions(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	const role, password = "modest", "open-sesame"
	s.exec(t, "create role "+role+" login password '"+password+"'", "drop schema if exists locker cascade")
	t.Cleanup(func() {
		s.exec(t, "drop owned by "+role, "drop role "+role, "drop schema if exists locker cascade")
	})
	rawURL := itest.Changed(s.URL, func(u *url.URL) { u.User = url.UserPassword(role, password) })
	itest.RefusedAtOpen(t, rawURL, "locker", "Migration")

	s.exec(t, "create schema locker", "grant usage, create on schema locker to "+role) // and none in the database
	step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, itest.OpenURL(t, rawURL)), step.LockName(t))
	s.exec(t, "drop schema locker cascade")

	s.exec(t, pgbackend.Migration("locker"), pgbackend.Migration("locker")) // again: it changes nothing
	grants := documentedGrants(t, role)
	s.exec(t, grants...)
	l, other, name := step.CloseAtEnd(t, itest.OpenURL(t, rawURL)), step.CloseAtEnd(t, itest.OpenURL(t, rawURL)), step.LockName(t)
	lease := step.Acquire(t, l, name)
	waiter := step.StartAcquire(t, other, name)
	step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 1) })
	if err := lease.Renew(t.Context()); err != nil {
		t.Errorf("Renew = %v, want nil", err)
	}
	step.Release(t, lease)
	step.Release(t, waiter.Granted(t, itest.ShortWait))

	for _, grant := range grants {
		what, _, _ := strings.Cut(strings.TrimPrefix(grant, "grant "), " to ")
		t.Run(what, func(t *testing.T) {
			s.exec(t, strings.Replace(strings.Replace(grant, "grant ", "revoke ", 1), " to ", " from ", 1))
			defer s.exec(t, grant)
			if strings.Contains(grant, "locker_lease") { // nothing rests on that
				step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, itest.OpenURL(t, rawURL)), name)
				return
			}
			itest.RefusedAtOpen(t, rawURL, "permission")
		})
	}
	step.Release(t, step.Acquire(t, step.CloseAtEnd(t, itest.OpenURL(t, rawURL)), name))
}

// Another schema than the usual one has tokens of its own, whose order says nothing about others',
// so its locks are its own as well. It is made where that is permitted. docs/postgres.md says how
// its keys are made.
func TestPostgresSchema(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	const schema = `Odd "schema"`
	t.Cleanup(func() { s.exec(t, `drop schema if exists "Odd ""schema""" cascade`) })
	l, other, name := step.CloseAtEnd(t, itest.OpenURL(t, s.with("schema", schema))), step.CloseAtEnd(t, s.open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.ShortTTL))
	step.FreeWithin(t, itest.ShortWait, other, name)
	var key int64
	itest.Must(t, func(ctx context.Context) (err error) {
		key, err = pgValue[int64](ctx, s.nodes[0], `select ('x' || left(encode(sha256('locker:'::bytea || '\x00'::bytea || convert_to($1, 'UTF8')
			|| '\x00'::bytea || convert_to($2, 'UTF8')), 'hex'), 16))::bit(64)::bigint`, name, schema)
		return err
	})
	if n := admin[int](t, s, "select count(*) from "+pgHeld+ofKey+"$1", key); n != 1 {
		t.Errorf("%d sessions have the lock by the key of the documentation, want 1", n)
	}
	step.WantLive(t, lease, step.CloseAtEnd(t, itest.OpenURL(t, s.with("schema", schema))))
	if n := admin[int](t, s, "select count(*) from pg_class c join pg_namespace n on n.oid = relnamespace where nspname = $1 and relkind in ('r', 'S')", schema); n != 3 {
		t.Errorf("the schema has %d tables and sequences, want 3", n)
	}
	step.Release(t, lease)
}

// A schema has the protocol of the version that made it. One that was made before there was a
// protocol is used as it is, also by a role that doesn't own it, and counts as protocol 1 from the
// next migration on. One of a version that isn't known yet is refused.
func TestPostgresProtocol(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	const role, password = "stranger", "open-sesame"
	s.exec(t, "create role "+role+" login password '"+password+"'", "drop schema if exists locker cascade")
	t.Cleanup(func() {
		s.exec(t, "drop owned by "+role, "drop role "+role, "drop schema if exists locker cascade")
	})
	rawURL := itest.Changed(s.URL, func(u *url.URL) { u.User = url.UserPassword(role, password) })
	protocol := func() int { return admin[int](t, s, "select protocol from locker.locker_epoch") }

	step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.open(t)), step.LockName(t))
	if n := protocol(); n != 2 {
		t.Errorf("a Locker has made a schema of protocol %d, want 2", n)
	}
	s.exec(t, "drop schema locker cascade", pgbackend.Migration("locker"))
	if n := protocol(); n != 2 {
		t.Errorf("the migration has made a schema of protocol %d, want 2", n)
	}
	s.exec(t, documentedGrants(t, role)...)
	s.exec(t, "alter table locker.locker_epoch drop column protocol")
	before := step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, itest.OpenURL(t, rawURL)), step.LockName(t))
	s.exec(t, "grant create on schema locker to "+role, "grant insert on locker.locker_epoch to "+role, "drop sequence locker.locker_token") // that role makes it again, and doesn't own the table
	token := step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, itest.OpenURL(t, rawURL)), step.LockName(t))
	later(t, before, token)
	s.exec(t, pgbackend.Migration("locker"), pgbackend.Migration("locker"))
	if n := protocol(); n != 1 {
		t.Errorf("the migration has made protocol %d of a schema that had none, want 1", n)
	}
	later(t, token, step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, itest.OpenURL(t, rawURL)), step.LockName(t)))

	s.exec(t, "update locker.locker_epoch set protocol = 2") // as docs/postgres.md says
	later(t, token, step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, itest.OpenURL(t, rawURL)), step.LockName(t)))
	s.exec(t, "update locker.locker_epoch set protocol = 3")
	itest.RefusedAtOpen(t, rawURL, "protocol 3")
}

// A table of leases from before Break has no place for a breach. A Locker works without it, and takes no
// lock away. The migration adds the column.
func TestPostgresTableFromBeforeBreak(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	t.Cleanup(func() { s.exec(t, "drop schema if exists locker cascade") })
	step.CloseAtEnd(t, s.open(t)) // which makes the table
	s.exec(t, "alter table locker.locker_lease drop column breach")
	before := step.CloseAtEnd(t, s.open(t))
	if _, err := locker.Break(t.Context(), before, step.LockName(t), 1, locker.Breach{}); !errors.Is(err, locker.ErrNoBreaker) || !strings.Contains(err.Error(), "Migration") {
		t.Errorf("Break = %v, want ErrNoBreaker that names the migration", err)
	}
	s.exec(t, pgbackend.Migration("locker"), pgbackend.Migration("locker"))
	l, name := step.CloseAtEnd(t, itest.OpenURL(t, s.with("ttl", labelTTL.String()))), step.LockName(t)
	lease := step.Acquire(t, l, name)
	described(t, l, lease, locker.DefaultHolder())
	if _, err := locker.Break(t.Context(), l, name, lease.Token(), locker.Breach{Reason: "hangs"}); err != nil {
		t.Errorf("Break after the migration = %v, want nil", err)
	}
	step.LostWithin(t, itest.ShortWait, lease)
}
