//go:build unix

package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/images"
)

// shell runs a command beside a server, where Postgres' own programs find it by their environment. When they are done their sessions may
// be there for some moments, with locks on all that they have read, which are many for a small server.
func (n *pgNode) shell(t conformance.T, command string) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		script := "export PGHOST=127.0.0.1 PGUSER=" + pgAdmin + " PGPASSWORD=" + pgPassword + " PGPORT=$0\n" + command
		_, err := images.Docker(ctx, "exec", n.id, "bash", "-euc", script, strconv.Itoa(n.port))
		return err
	})
	eventually(t, soon, func() error {
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

// Tokens rise over a dump that is restored, though the sequence is then where it was when it was dumped. A Locker that was open all
// the time gives none that is too small either.
func TestPostgresDumpAndRestore(t *testing.T) {
	needServers(t)
	s := pgSmall(t)
	s.clear(t)
	node := s.nodes[0]
	other, err := startPostgres(t.Context(), "postgres")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		what    string
		to      *pgService
		restore func()
	}{
		{"over what is there", s, func() { node.shell(t, pgCleaned) }},
		{"into a new database", s, func() { node.shell(t, pgAfresh+"; "+pgRestored) }},
		{"on another server", other, func() {
			file := filepath.Join(t.TempDir(), "dump")
			docker(t, []string{node.id + ":/tmp/dump", file}, "cp")
			docker(t, []string{file, other.nodes[0].id + ":/tmp/dump"}, "cp")
			other.nodes[0].shell(t, pgAfresh+"; "+pgRestored)
		}},
	} {
		t.Run(tc.what, func(t *testing.T) {
			l := keep(t, s.open(t))
			before := spend(t, 50, l)
			node.shell(t, pgDumped)
			last := spend(t, 200, l, keep(t, s.open(t)))
			tc.restore()
			token := free(t, soon, keep(t, tc.to.open(t)), lockName(t))
			t.Logf("token %v when it was dumped, %v when it was restored, and %v then", before, last, token)
			later(t, last, token)
			if tc.to == s {
				later(t, last, free(t, soon, l, lockName(t)))
			}
		})
	}
}
