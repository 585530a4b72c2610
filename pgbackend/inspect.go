package pgbackend

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/pgsession"
)

var _ driver.Inspector = (*pgDriver)(nil)

// Inspect is one message. It reads the entries of the key of the lock or the slot, and those by which
// connections are told apart.
func (d *pgDriver) Inspect(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
	k := d.keyOf(string(d.schema), d.prefix, textOf(name, look.Slot))
	found, err := d.lookAt(ctx, k)
	if err != nil {
		return locker.Status{}, err
	}
	s := found.statusOf(k, look.Waiters)
	s.Name, s.Slot = name, look.Slot
	return s, nil
}

// lookAt reads what there is of one lock.
func (d *pgDriver) lookAt(ctx context.Context, k key) (found, error) {
	isLock := isKey("l", k)
	return d.look(ctx, fmt.Sprintf("(%s OR l.classid = %d AND l.objsubid = 2)", isLock, ownSpace), isLock)
}

// List is one message, so it shows all locks at one moment. Only the locks of Lockers are shown:
// advisory locks of other programs have no names here. The driver knows the names of this Locker's
// locks, and the names in the table of leases. With a prefix, only locks with such a name are
// shown. If there are locks whose names nobody knows, the list then ends with an error that says
// so.
func (d *pgDriver) List(prefix string, waiters int) driver.Pages {
	var failed error // after the only page
	return func(ctx context.Context) ([]locker.Status, bool, error) {
		if failed != nil {
			return nil, false, failed
		}
		found, err := d.look(ctx, "true", "true")
		if err != nil {
			return nil, false, err
		}
		texts, elsewhere := d.textsIn(found.rows)
		page := found.statuses(waiters, func(k key) string { return cmp.Or(d.names.textOf(k), texts[k]) })
		nameless := 0
		if prefix != "" {
			page = slices.DeleteFunc(page, func(s locker.Status) bool {
				if s.Name == "" && !elsewhere[s.Key] {
					nameless++
				}
				return !strings.HasPrefix(s.Name, prefix)
			})
		}
		if nameless > 0 {
			failed = fmt.Errorf("%w by the beginning of its name: the database has hashes of names, and for %d locks nobody has written the name; list all, without a prefix",
				locker.ErrNoInspector, nameless)
		}
		return page, failed != nil, nil
	}
}

// textsIn returns the texts of names and slots that are in rows. A text counts only if it has the
// row's key: anything may be there, and below other Lockers' prefixes the same name is another
// lock. elsewhere has the keys, as a Status has them, of rows whose names don't count: no name here
// has those keys.
func (d *pgDriver) textsIn(rows map[rowID]leaseRow) (texts map[key]string, elsewhere map[string]bool) {
	texts, elsewhere = make(map[key]string), make(map[string]bool)
	for _, r := range rows {
		if _, _, ok := parseText(r.text); ok && d.keyOf(string(d.schema), d.prefix, r.text) == r.key {
			texts[r.key] = r.text
		} else {
			elsewhere[r.key.String()] = true
		}
	}
	return texts, elsewhere
}

// found is what a look at the database has found.
type found struct {
	entries  []entry
	rows     map[rowID]leaseRow
	presence map[int64]uint32 // of connections of Lockers, by their processes
	server   serverID         // that has answered
}

// look reads the advisory locks of the database that meet the condition where, and the rows of the
// table of leases for locks that meet whereRows, if there is the table and this role may read it.
// pg_locks is a consistent look at the lock table. query_start and state_change are hidden from a
// role that may not see the other role's sessions; then only the beginning of the wait at a gate is
// known. Of the connections' own locks only exclusive ones count: a session that finds out whether another
// one is over has the other one's presence lock in shared mode for a moment.
func (d *pgDriver) look(ctx context.Context, where, whereRows string) (found, error) {
	where = fmt.Sprintf("(l.mode = 'ExclusiveLock' OR l.classid <> %d OR l.objsubid <> 2) AND %s", ownSpace, where)
	sql := "SELECT l.classid, l.objid, l.objsubid, l.pid, l.granted," +
		" (extract(epoch FROM CASE WHEN l.granted THEN NULL WHEN l.objsubid = 2 THEN coalesce(a.query_start, l.waitstart) ELSE a.query_start END) * 1000000)::bigint," +
		" a.application_name, CASE WHEN a.state = 'idle' THEN (extract(epoch FROM clock_timestamp() - a.state_change) * 1000)::bigint WHEN a.state IS NOT NULL THEN 0 END" +
		" FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid" +
		" WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND " + where +
		" ORDER BY l.waitstart, l.pid" // what has just begun to wait has no waitstart yet, and comes last
	for try := 1; ; try++ {
		c, err := d.anyConn(ctx, d.ttl)
		if err != nil {
			return found{}, err
		}
		both := sql
		readsRows := c.readsLabels.Load()
		if readsRows {
			both += "; " + d.schema.readRows(whereRows)
		}
		r, err := c.exec(ctx, both)
		if readsRows && pgsession.Refused(err) && len(r.Rows) > 0 { // the first statement was executed: this connection's own locks are among its rows
			c.readsLabels.Store(!pgsession.Says(err, codeNoTable, codeNoColumn, codeNoSchema, codePermission))
			err = nil
		}
		switch {
		case err == nil:
			f := foundIn(r, uint32(c.tokens.serverID.sequence)) //nolint:gosec // an OID has 32 bits
			f.server = c.tokens.serverID
			return f, nil
		case !pgsession.Ended(err) || try == 2 || ctx.Err() != nil:
			return found{}, explain(kit.Overdue(err), d.schema)
		} // else the connection has ended, perhaps long ago, and another one is asked
	}
}
