package pgbackend

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/fencedlock/locker/internal/pgsession"
)

//go:embed migration.sql
var migration string

// Migration is the SQL that makes the sequence, the epoch and the table of leases in a schema, for
// operators who prefer to make them by hand: a Locker makes them itself where its role may, and tokens
// can't fall by that. It is safe to execute it again.
func Migration(schema string) string {
	return strings.ReplaceAll(migration, pgsession.Quoted(defaultSchema), pgsession.Quoted(schema))
}

// schema is the name of the schema in which the sequence and the epoch are.
type schema string

func (s schema) quoted() string   { return pgsession.Quoted(string(s)) }
func (s schema) sequence() string { return s.quoted() + ".locker_token" }
func (s schema) table() string    { return s.quoted() + ".locker_epoch" }
func (s schema) leases() string   { return s.quoted() + ".locker_lease" }

// make makes what is missing, unless only the table of leases is missing, or tokens would fall: see
// knownEpoch. It returns what this role may do with that table.
func (s schema) make(ctx context.Context, session *pgsession.Session, known *knownEpoch) (leaseTable, error) {
	for try := 1; ; try++ {
		there, leases, err := s.check(ctx, session)
		if there || err != nil {
			return leases, err
		}
		missing, err := s.missing(ctx, session, known)
		if err != nil {
			return leases, err
		}
		// In one message, which is one transaction; the lock excludes other connections that find
		// the same.
		_, err = session.Exec(ctx, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d, 0);\n%s", ownSpace, missing))
		switch {
		case err == nil:
		case pgsession.Says(err, codeDuplicate, codeDuplicateTable, codeDuplicateSchema, codeUnique) && try < 3:
			// Another client has made it, without that lock.
		default:
			return leases, fmt.Errorf("the schema %s is missing or incomplete; execute the SQL of pgbackend.Migration: %w", s.quoted(), err)
		}
	}
}

// missing is the SQL for what is missing. CREATE SCHEMA needs the right to make any, also when it
// makes none; and ALTER TABLE needs the table's owner, and a lock that keeps all new connections
// waiting, also when it adds nothing. A table of the epoch that is there gets no row: where it has
// none, a restore has made it, and is about to bring its row.
func (s schema) missing(ctx context.Context, session *pgsession.Session, known *knownEpoch) (string, error) {
	sql := Migration(string(s))
	r, err := session.Exec(ctx, "SELECT "+s.givenOut()+", to_regnamespace("+pgsession.Literal(s.quoted())+") IS NOT NULL, to_regclass("+pgsession.Literal(s.table())+") IS NOT NULL, to_regclass("+pgsession.Literal(s.leases())+") IS NOT NULL, "+
		timelineOfServer)
	if err != nil {
		return "", err
	}
	if r.Bool(0, 1) {
		sql = strings.Replace(sql, "CREATE SCHEMA IF NOT EXISTS "+s.quoted()+";", "", 1)
	}
	if r.Bool(0, 2) {
		sql = strings.Replace(sql, "ALTER TABLE "+s.table()+" ADD COLUMN IF NOT EXISTS protocol int NOT NULL DEFAULT 1;", "", 1)
		sql = strings.Replace(sql, "INSERT INTO "+s.table()+" (protocol) VALUES (2) ON CONFLICT DO NOTHING;", "", 1)
	} else if err := s.checkGivenOut(r.Value(0, 0)); err != nil {
		return "", err
	}
	if err := known.mayBegin(r.Int(0, 4), errSchemaGone); err != nil {
		return "", fmt.Errorf("the schema %s is missing or incomplete: %w", s.quoted(), err)
	}
	if r.Bool(0, 3) { // an index needs the table's owner as well
		sql = strings.Replace(sql, "ALTER TABLE "+s.leases()+" ADD COLUMN IF NOT EXISTS breach text;", "", 1)
		sql = strings.Replace(sql, "CREATE INDEX IF NOT EXISTS locker_lease_broken ON "+s.leases()+" (presence) WHERE breach IS NOT NULL;", "", 1)
	}
	return sql, nil
}

// givenOut is SQL: the last value that the sequence has given out, 0 if there was none, "?" if this
// role may not know; NULL if there is no sequence. It comes before a look for the table: another
// client makes both in one transaction, and takes values only then.
func (s schema) givenOut() string {
	return "(SELECT CASE WHEN has_sequence_privilege(seqrelid, 'USAGE, SELECT')" + // one of them
		" THEN coalesce(pg_sequence_last_value(seqrelid), 0)::text ELSE '?' END FROM pg_sequence WHERE seqrelid = to_regclass(" + pgsession.Literal(s.sequence()) + "))"
}

// checkGivenOut refuses a sequence that has given values out, and whose table of the epoch is
// missing: a new one would begin with an early epoch, and tokens would fall.
func (s schema) checkGivenOut(last string) error {
	switch last {
	case "", "0":
		return nil
	case "?":
		return fmt.Errorf("%s is missing, and so is a permission, to see whether tokens were given out: USAGE on %s, which pgbackend.Migration ends with", s.table(), s.sequence())
	}
	return fmt.Errorf("%s is missing, and tokens were given out (%s is at %s): a new table would let tokens fall; "+
		"restore it, or make it with a higher epoch (docs/postgres.md, \"Raising the epoch\")", s.table(), s.sequence(), last)
}

// check refuses a sequence whose values don't rise from one to the next, or not over a crash, and
// an epoch that can't be raised when that is needed.
func (s schema) check(ctx context.Context, session *pgsession.Session) (there bool, leases leaseTable, err error) {
	r, err := session.Exec(ctx, fmt.Sprintf("SELECT o.sequence IS NOT NULL AND o.epoch IS NOT NULL, has_table_privilege(o.epoch, 'UPDATE'),"+
		" s.seqincrement, s.seqcache, s.seqcycle, c.relpersistence, has_sequence_privilege(s.seqrelid, 'USAGE') AND has_sequence_privilege(s.seqrelid, 'UPDATE'),"+
		" has_table_privilege(o.leases, 'SELECT'), has_table_privilege(o.leases, 'INSERT') AND has_table_privilege(o.leases, 'UPDATE')"+
		" AND has_table_privilege(o.leases, 'DELETE') AND current_setting('server_encoding') = 'UTF8',"+
		" EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = o.leases AND a.attname = 'breach' AND NOT a.attisdropped)"+
		" FROM (SELECT to_regclass(%s)::oid AS sequence, to_regclass(%s)::oid AS epoch, to_regclass(%s)::oid AS leases) o"+
		" LEFT JOIN pg_sequence s ON s.seqrelid = o.sequence LEFT JOIN pg_class c ON c.oid = s.seqrelid",
		pgsession.Literal(s.sequence()), pgsession.Literal(s.table()), pgsession.Literal(s.leases())))
	switch {
	case err != nil || !r.Bool(0, 0):
		return false, leases, err
	case r.Value(0, 2) == "":
		err = fmt.Errorf("%s is not a sequence", s.sequence())
	case r.Int(0, 2) < 1, r.Int(0, 3) != 1, r.Bool(0, 4), r.Value(0, 5) != "p":
		err = fmt.Errorf("invalid sequence %s: want one that goes up (INCREMENT 1), keeps no values for later (CACHE 1), doesn't restart (NO CYCLE), and is logged, as pgbackend.Migration makes it",
			s.sequence())
	case !r.Bool(0, 6): // where a mark exists no token is taken while the connection is made, so nothing else would show it
		err = fmt.Errorf("a permission is missing: USAGE or UPDATE on %s, which pgbackend.Migration ends with", s.sequence())
	case !r.Bool(0, 1):
		err = fmt.Errorf("a permission is missing: UPDATE on %s, which pgbackend.Migration ends with", s.table())
	}
	reads := r.Bool(0, 7) && r.Bool(0, 9)
	return true, leaseTable{reads: reads, writes: reads && r.Bool(0, 8)}, err
}

// leaseTable is what a role may do with the table of leases. Neither is true where there is none.
type leaseTable struct {
	reads  bool
	writes bool // and the database takes the characters of all names
}

// The protocols that this version can be used with. In a schema of protocol 1 there may be versions
// that end a move with the lock in shared mode on the shared connection. A schema that was made
// with protocol 2 must be used by this version and later ones only: the earlier ones don't know the
// column, so nothing refuses them. All exclude each other as long as nobody asks for shared mode.
const (
	oldestProtocol = 1
	newestProtocol = 2
)

// checkProtocol refuses a schema that belongs to a version of which this one knows nothing. A
// schema that was made before there was a protocol has no such column (the value is ""), and is of
// protocol 1: Migration adds the column, and a Locker doesn't, because that needs the table's owner
// and a lock that keeps all new connections waiting.
func (s schema) checkProtocol(value string) error {
	if value == "" {
		return nil
	}
	if n, err := strconv.Atoi(value); err == nil && n >= oldestProtocol && n <= newestProtocol {
		return nil
	}
	return fmt.Errorf("%w: the schema %s has protocol %s, and this version of locker knows protocols %d to %d; use a newer version",
		errors.ErrUnsupported, s.quoted(), value, oldestProtocol, newestProtocol)
}

// explain adds what to do to the errors that an operator can fix.
func explain(err error, s schema) error {
	switch {
	case err == nil || errors.Is(err, ErrPooler):
		return err
	case pgsession.Says(err, codePermission):
		return fmt.Errorf("a permission is missing; pgbackend.Migration ends with the permissions that a role needs in the schema %s: %w", s.quoted(), err)
	case pgsession.Says(err, codeNoTable, codeNoSchema):
		return fmt.Errorf("the sequence or the epoch is missing in the schema %s; pgbackend.Migration has the SQL: %w", s.quoted(), err)
	case pgsession.Says(err, codeReadOnly):
		return fmt.Errorf("the server takes no writes: %w", err)
	case pgsession.Says(err, codeTooMany):
		return fmt.Errorf("the server or its pooler has no connection left: %w", err)
	}
	return tableIsFull(err)
}
