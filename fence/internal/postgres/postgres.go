// Package postgres has the SQL that both packages for Postgres run.
package postgres

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	//go:embed schema.sql
	schema string

	//go:embed claim.sql
	claim string
)

// ErrSavepoint is the error of both packages.
var ErrSavepoint = errors.New("it is within a savepoint, whose rollback would take the claim back and let the transaction go on; " +
	"claim before the savepoint, in the transaction itself")

// Option changes one claim.
type Option func(*Settings)

// Settings are what options have set.
type Settings struct {
	Schema string
	Idle   time.Duration // 0: as long as the session's settings say
}

// DefaultSchema has the table of marks if no option names another.
const DefaultSchema = "public"

// In is the option of both packages.
func In(schema string) Option { return func(s *Settings) { s.Schema = schema } }

// IdleLimit is the option of both packages.
func IdleLimit(d time.Duration) Option { return func(s *Settings) { s.Idle = d } }

// Of returns the settings that options make.
func Of(opts []Option) Settings {
	s := Settings{Schema: DefaultSchema}
	for _, opt := range opts {
		opt(&s)
	}
	return s
}

func (s Settings) table() string {
	return `"` + strings.ReplaceAll(s.Schema, `"`, `""`) + `".locker_fence`
}

// Check refuses what can't be meant.
func (s Settings) Check() error {
	switch {
	case s.Schema == "" || strings.ContainsRune(s.Schema, 0):
		return fmt.Errorf("fence: %q is no name of a schema", s.Schema)
	case s.Idle < 0 || s.Idle > longestIdle:
		return fmt.Errorf("fence: an idle limit of %v is not from 0 to %v", s.Idle, longestIdle)
	}
	return nil
}

// longestIdle is what the settings of Postgres can say.
const longestIdle = (1<<31 - 1) * time.Millisecond

// Table makes the table of marks, unless it is there.
func (s Settings) Table() string { return strings.ReplaceAll(schema, "{{table}}", s.table()) }

// Claim raises a mark, and writes no row when that is higher.
func (s Settings) Claim() string {
	return strings.NewReplacer("{{table}}", s.table(), "{{limit}}", s.limit()).Replace(claim)
}

// Mark reads a mark.
func (s Settings) Mark() string {
	return "SELECT token FROM " + s.table() + " WHERE resource OPERATOR(pg_catalog.=) $1::pg_catalog.text"
}

// limit ends a session that falls silent in its transaction: when it has got an answer and asks nothing more, and when TCP has heard
// nothing of it, in the middle of a request say.
func (s Settings) limit() string {
	if s.Idle == 0 {
		return ""
	}
	ms := max(s.Idle.Milliseconds(), 1)
	probes := max(ms/3000, 1) // seconds
	var sql strings.Builder
	for _, setting := range []struct {
		name  string
		value int64
	}{
		{"idle_in_transaction_session_timeout", ms},
		{"tcp_user_timeout", ms},
		{"tcp_keepalives_idle", probes},
		{"tcp_keepalives_interval", probes},
	} {
		fmt.Fprintf(&sql, "\n\tAND pg_catalog.set_config('%s', '%d', true) IS NOT NULL", setting.name, setting.value)
	}
	return sql.String()
}
