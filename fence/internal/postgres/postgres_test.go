package postgres

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The script in docs/command.md has the table and the claim of this package, in a shorter form: names
// of tables and operators aren't qualified there.
func TestScriptInCommandPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n```sql\n(.*?)```\n").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 2 {
		t.Fatalf("docs/command.md has %d blocks of SQL, want the table and the script", len(blocks))
	}
	table, script := plain(blocks[0][1]), plain(blocks[1][1])
	if want := plain(Of(nil).Table()); table != want {
		t.Errorf("docs/command.md has the table\n%s\nand the migration\n%s", table, want)
	}
	claim := plain(Of(nil).Claim())
	into, _, _ := strings.Cut(claim, " SELECT ")
	_, update, _ := strings.Cut(claim, " ON CONFLICT ")
	update, _, _ = strings.Cut(update, " RETURNING ")
	want := into + " VALUES (:'resource', :'token') ON CONFLICT " + update + ` RETURNING mark.token AS claimed \gset`
	if !strings.Contains(script, want) {
		t.Errorf("the script in docs/command.md is\n%s\nwithout the claim\n%s", script, want)
	}
}

// plain is SQL in one line, without comments and without what protects it from the search path.
func plain(sql string) string {
	sql = regexp.MustCompile("(?m)--.*$").ReplaceAllString(sql, "")
	sql = strings.ReplaceAll(sql, `"`+DefaultSchema+`"`, DefaultSchema)
	sql = regexp.MustCompile(`OPERATOR\(pg_catalog\.(.+?)\)`).ReplaceAllString(sql, "$1")
	return strings.Join(strings.Fields(sql), " ")
}

// Linux refuses keepalives above 32,767 s, and Postgres would only log that.
func TestKeepalivesOfALongIdleLimit(t *testing.T) {
	limit := Settings{Schema: DefaultSchema, Idle: longestIdle}.limit()
	for _, setting := range []string{"tcp_keepalives_idle", "tcp_keepalives_interval"} {
		if !strings.Contains(limit, "'"+setting+"', '32767'") {
			t.Errorf("%s isn't 32767 in %s", setting, limit)
		}
	}
}
