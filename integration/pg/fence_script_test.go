//go:build unix

package pg

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// The script for psql in docs/command.md claims as package fencepg does, in the same table: it writes
// with a token that is as large as the mark or larger, and refuses a smaller one before it has
// written anything.
func TestScriptInCommandPage(t *testing.T) {
	itest.NeedServers(t)
	page, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n```sql\n(.*?)```\n").FindAllStringSubmatch(string(page), -1)
	command := regexp.MustCompile(`(?m)^    (psql .*)$`).FindSubmatch(page)
	if len(blocks) != 2 || command == nil {
		t.Fatalf("docs/command.md has %d blocks of SQL, and the command %q", len(blocks), command)
	}
	s := fencePostgres(t)
	pool, err := pgxpool.New(t.Context(), FenceURL(t, s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store := fencedPg{pool}
	node, resource := s.nodes[0], step.LockName(t)
	node.shell(t, fmt.Sprintf("export PGDATABASE=%s; cd /tmp\n"+
		"cat > table.sql <<'EOF'\n%s\nEOF\ncat > release.sql <<'EOF'\n%s\nEOF\n"+
		"psql -X -v ON_ERROR_STOP=1 -f table.sql", pgDatabase, blocks[0][1], blocks[1][1]))
	run := func(token, code int) {
		t.Helper()
		node.shell(t, fmt.Sprintf("export PGDATABASE=%s LOCKER_NAME='%s' LOCKER_TOKEN=%d; cd /tmp; "+
			"psql -X -c 'DROP TABLE IF EXISTS releases'; code=0; %s || code=$?; test $code = %d",
			pgDatabase, resource, token, command[1], code))
	}
	released := func() bool { return admin[bool](t, s, "SELECT to_regclass('releases') IS NOT NULL") }
	const refused = 3 // psql's code when a script fails
	for _, tc := range []struct {
		token, code int
		written     bool
	}{{7, 0, true}, {7, 0, true}, {6, refused, false}, {8, 0, true}, {7, refused, false}} {
		run(tc.token, tc.code)
		if released() != tc.written {
			t.Errorf("with token %d the script has written: %v, want %v", tc.token, !tc.written, tc.written)
		}
	}
	if err := store.Claim(t.Context(), resource, 7); !errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "below 8") {
		t.Errorf("Claim = %v, want %v, because the script has claimed 8", err, fence.ErrStale)
	}
	if err := store.Claim(t.Context(), resource, 9); err != nil {
		t.Fatal(err)
	}
	run(8, refused)
}
