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
var ErrSavepoint = errors.New("the claim is within a savepoint, whose rollback would take it back while the transaction goes on; " +
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

// WithSchema is the option of both packages.
func WithSchema(schema string) Option { return func(s *Settings) { s.Schema = schema } }

// WithIdleLimit is the option of both packages.
func WithIdleLimit(d time.Duration) Option { return func(s *Settings) { s.Idle = d } }

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

// Check refuses invalid settings.
func (s Settings) Check() error {
	switch {
	case s.Schema == "" || strings.ContainsRune(s.Schema, 0):
		return fmt.Errorf("fence: invalid schema %q: want the name of a schema, such as app", s.Schema)
	case s.Idle < 0 || s.Idle > longestIdle:
		return fmt.Errorf("fence: invalid idle limit %v: want from 0 to %v, such as 30s", s.Idle, longestIdle)
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

// limit ends a session that falls silent in its transaction: when it has got an answer and asks
// nothing more, and when TCP hears nothing from it, for example in the middle of a request.
func (s Settings) limit() string {
	if s.Idle == 0 {
		return ""
	}
	ms := max(s.Idle.Milliseconds(), 1)
	probes := min(max(ms/3000, 1), 32767) // seconds; Linux takes no more
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
