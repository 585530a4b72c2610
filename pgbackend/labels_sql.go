package pgbackend

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/pgsession"
)

// The statements about the table of leases. Texts go there in hexadecimal: so they contain nothing
// that SQL has a meaning for, whatever the encoding of the client is.

// writeLimit is how many bytes a statement that writes rows has, about. A message of this length fits
// the buffers below, so sending it doesn't wait for a server that is out of reach.
const writeLimit = 16 << 10

// batches divides rows into batches, one for each statement.
func batches(some []write) [][]write {
	var all [][]write
	size := writeLimit
	for _, w := range some {
		length := 130 + 2*(len(w.l.text)+len(w.l.label.Holder)+len(w.l.label.Trace)) // numbers and punctuation with them
		if size+length > writeLimit {
			all, size = append(all, nil), 0
		}
		all[len(all)-1] = append(all[len(all)-1], w)
		size += length
	}
	return all
}

func (s schema) writeRows(some []write, now driver.Instant) string {
	var b strings.Builder
	fmt.Fprintf(&b, "INSERT INTO %s AS r (key, presence, name, token, since, ttl, label) SELECT k, p, convert_from(decode(n, 'hex'), 'UTF8'), t,"+
		" now() - a * interval '1 ms', d * interval '1 ms', convert_from(decode(l, 'hex'), 'UTF8') FROM (VALUES ", s.leases())
	for i, w := range some {
		if i > 0 {
			b.WriteString(", ")
		}
		token, age := "NULL", "NULL"
		if w.token != 0 {
			w.l.mu.Lock()
			since := w.l.since
			w.l.mu.Unlock()
			token, age = fmt.Sprint(int64(w.token)), fmt.Sprint(max(now.Sub(since), 0).Milliseconds())
		}
		fmt.Fprintf(&b, "(%s, %d::bigint, '%x', %s::bigint, %s::bigint, %d::bigint, '%x')",
			w.key.lock(), w.presence, w.l.text, token, age, w.l.ttl.Milliseconds(), w.l.label.String())
	}
	b.WriteString(") v(k, p, n, t, a, d, l) ON CONFLICT (key, presence) DO UPDATE SET name = excluded.name, token = excluded.token," +
		" since = excluded.since, ttl = excluded.ttl, label = excluded.label, written = excluded.written, breach = CASE WHEN r.token = excluded.token THEN r.breach END")
	return b.String()
}

func (s schema) deleteRows(rows []row) string {
	values := make([]string, len(rows))
	for i, r := range rows {
		values[i] = fmt.Sprintf("(%s, %d::bigint)", r.key.lock(), r.presence)
	}
	return fmt.Sprintf("DELETE FROM %s r USING (VALUES %s) v(k, p) WHERE r.key = v.k AND r.presence = v.p", s.leases(), strings.Join(values, ", "))
}

// deleteRowsOf deletes all rows of connections.
func (s schema) deleteRowsOf(presences []uint32) string {
	return fmt.Sprintf("DELETE FROM %s WHERE presence IN (%s)", s.leases(), numbers(presences))
}

// numbers is a list as SQL.
func numbers(some []uint32) string {
	return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(some), "[]")), ", ")
}

// sweepBatch is how many rows sweepRows deletes at most: renewals wait for it.
const sweepBatch = 500

// sweepRows deletes some of the rows that are a day old, of connections that have ended, and answers
// how many. Until then they have the names of keys.
func (s schema) sweepRows() string {
	return fmt.Sprintf("WITH swept AS (DELETE FROM %[1]s WHERE ctid = ANY(ARRAY(SELECT ctid FROM %[1]s WHERE written < now() - interval '1 day'"+
		" AND presence NOT IN (SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND classid = %[2]d AND objsubid = 2) ORDER BY written LIMIT %[3]d)) RETURNING 1)"+
		" SELECT count(*) FROM swept", s.leases(), ownSpace, sweepBatch)
}

// readRows is a statement with the rows of the locks that have an entry in pg_locks; where is a
// condition for these entries. A lock has the rows of the connections that have it or wait for it, and
// a few others, which may know its name. So it doesn't matter how many old rows there are. What no
// Locker has written is left out; see leaseRowOf for the columns. The orders, here and in sweepRows,
// have the server use the indexes, whatever it knows about the table.
// The server doesn't know how many locks there are, and would compare each of them with each: so the
// few entries of connections are collected first.
func (s schema) readRows(where string) string {
	return fmt.Sprintf("WITH own AS MATERIALIZED (SELECT pid, objid FROM pg_locks WHERE locktype = 'advisory' AND classid = %[2]d AND objsubid = 2)"+
		" SELECT r.key, r.presence, r.token,"+
		" CASE WHEN r.since > '1970-01-01' AND r.since < '9999-01-01' THEN (extract(epoch FROM r.since) * 1000000)::bigint END,"+
		" CASE WHEN r.ttl > interval '0' AND r.ttl < interval '1000 days' THEN (extract(epoch FROM r.ttl) * 1000)::bigint END,"+
		" encode(convert_to(r.name, 'UTF8'), 'hex'), encode(convert_to(r.label, 'UTF8'), 'hex'), r.breach IS NOT NULL, encode(convert_to(left(r.breach, %[6]d), 'UTF8'), 'hex')"+
		" FROM (SELECT (l.classid::bigint << 32) | l.objid::bigint AS key, array_agg(DISTINCT own.objid::bigint) AS presences"+
		" FROM pg_locks l JOIN own ON own.pid = l.pid"+
		" WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND %[3]s GROUP BY 1) locks"+
		" CROSS JOIN LATERAL (SELECT * FROM %[1]s WHERE key = locks.key AND presence = ANY(locks.presences)"+
		" UNION (SELECT * FROM %[1]s WHERE key = locks.key ORDER BY presence LIMIT 3)) r"+
		" WHERE octet_length(r.name) <= %[4]d AND octet_length(r.label) <= %[5]d",
		s.leases(), ownSpace, where, maxText, maxLabel, driver.MaxBreach)
}

// maxLabel is more than the length of any label.
const maxLabel = 400

// columnsOfRow is how many columns readRows has.
const columnsOfRow = 9

// leaseRow is what a row says.
type leaseRow struct {
	rowID
	token locker.Token
	since time.Time     // zero: of one that waits
	ttl   time.Duration // 0: not known
	text  string        // of a name and a slot
	label string

	isBroken bool // an operator takes the lease away
	breach   string
}

// leaseRowOf reads row i of an answer. It is false if that is a row of another statement.
func leaseRowOf(r *pgsession.Call, i int) (l leaseRow, ok bool) {
	if len(r.Rows[i]) != columnsOfRow {
		return l, false
	}
	presence := r.Int(i, 1)
	if presence < 0 || presence > 1<<32-1 {
		return l, true // anything may be there
	}
	l = leaseRow{
		rowID: rowID{key(r.Int(i, 0)), uint32(presence)},
		token: locker.Token(r.Int(i, 2)),
		ttl:   time.Duration(min(max(r.Int(i, 4), 0), pgsession.MaxIdleTimeout.Milliseconds())) * time.Millisecond,
		text:  plain(r.Value(i, 5)),
		label: plain(r.Value(i, 6)),

		isBroken: r.Bool(i, 7),
		breach:   plain(r.Value(i, 8)),
	}
	if at := r.Int(i, 3); at > 0 {
		l.since = time.UnixMicro(at).UTC()
	}
	return l, true
}

// plain reads what is in hexadecimal.
func plain(digits string) string {
	b, _ := hex.DecodeString(digits)
	return string(b)
}
