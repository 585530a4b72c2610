package pgbackend

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/pgsession"
)

var _ driver.Inspector = (*pgDriver)(nil)

// Inspect is one statement.
func (d *pgDriver) Inspect(ctx context.Context, name string, waiters int) (locker.Status, error) {
	k := d.keyOf(string(d.schema), d.prefix, name)
	entries, err := d.lockTable(ctx, fmt.Sprintf("l.classid = '%d' AND l.objid = '%d'", uint32(k>>32), uint32(k))) //nolint:gosec // its two halves
	if err != nil {
		return locker.Status{}, err
	}
	s := statusOf(k, entries, waiters)
	s.Name = name
	return s, nil
}

// List is one statement, so it shows all locks at one moment. Only the locks of Lockers are shown:
// advisory locks of other programs have no names here. The names of this Locker's locks are known,
// and those of others are not.
func (d *pgDriver) List(prefix string, waiters int) driver.Pages {
	return func(ctx context.Context) ([]locker.Status, bool, error) {
		if prefix != "" {
			return nil, false, fmt.Errorf("%w by the beginning of its name: the database has hashes of the names; list all, without a prefix", locker.ErrNoInspector)
		}
		entries, err := d.lockTable(ctx, "true")
		if err != nil {
			return nil, false, err
		}
		page := statusesOf(entries, waiters, d.names.nameOf)
		return page, false, nil
	}
}

// lockTable reads the advisory locks of the database that meet a condition. pg_locks is a
// consistent look at the lock table. query_start is hidden from a role that may not see the other
// one's sessions; then only the beginning of the wait at a gate is known.
func (d *pgDriver) lockTable(ctx context.Context, where string) ([]entry, error) {
	sql := "SELECT l.classid, l.objid, l.objsubid, l.pid, l.granted," +
		" (extract(epoch FROM CASE WHEN l.granted THEN NULL WHEN l.objsubid = 2 THEN coalesce(a.query_start, l.waitstart) ELSE a.query_start END) * 1000000)::bigint" +
		" FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid" +
		" WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND " + where +
		" ORDER BY l.waitstart, l.pid" // what has just begun to wait has no waitstart yet, and comes last
	for try := 1; ; try++ {
		c, err := d.anyConn(ctx, d.ttl)
		if err != nil {
			return nil, err
		}
		r, err := c.exec(ctx, sql)
		switch {
		case err == nil:
			return entriesOf(r), nil
		case !pgsession.Ended(err) || try == 2 || ctx.Err() != nil:
			return nil, explain(kit.Overdue(err), d.schema)
		} // else the connection has ended, perhaps long ago, and another one is asked
	}
}

// entry is a row of the lock table.
type entry struct {
	key     key
	second  bool // it is in the space of pairs: a gate, or a lock of the connections' own
	pid     int64
	granted bool
	asked   time.Time // when its statement began, if it waits and that may be seen
}

func entriesOf(r *pgsession.Call) []entry {
	entries := make([]entry, len(r.Rows))
	for i := range r.Rows {
		entries[i] = entry{
			key:     key(r.Int(i, 0)<<32 | r.Int(i, 1)),
			second:  r.Int(i, 2) == 2,
			pid:     r.Int(i, 3),
			granted: r.Bool(i, 4),
		}
		if at := r.Int(i, 5); at > 0 {
			entries[i].asked = time.UnixMicro(at)
		}
	}
	return entries
}

// isOwn reports whether the entry is a lock that the connections of Lockers have for themselves,
// and no gate.
func (e entry) isOwn() bool { return e.second && int64(e.key)>>32 == ownSpace }

// statusOf describes a lock. entries are those of its key, in the order of their waits. Who waits
// for the lock itself has passed the gate, and comes before those that wait there.
func statusOf(k key, entries []entry, waiters int) locker.Status {
	s := locker.Status{Key: strconv.FormatInt(int64(k), 10)}
	var first, later []locker.Party
	for _, e := range entries {
		p := locker.Party{Session: strconv.FormatInt(e.pid, 10), Asked: e.asked}
		switch {
		case !e.granted && !e.second:
			first = append(first, p)
		case !e.granted:
			later = append(later, p)
		case !e.second && s.Holder == nil:
			// While a lease moves, two connections of its Locker have the lock in shared mode.
			s.Holder = &p
		}
	}
	s.Waiting = len(first) + len(later)
	s.Waiters = slices.Concat(first, later)
	s.Waiters = s.Waiters[:min(len(s.Waiters), waiters)]
	return s
}

// statusesOf describes the locks that sessions of Lockers hold or wait for.
func statusesOf(entries []entry, waiters int, nameOf func(key) string) []locker.Status {
	lockers := make(map[int64]bool) // their processes
	for _, e := range entries {
		if e.isOwn() {
			lockers[e.pid] = true
		}
	}
	byKey := make(map[key][]entry)
	wanted := make(map[key]bool)
	for _, e := range entries {
		if e.isOwn() {
			continue
		}
		byKey[e.key] = append(byKey[e.key], e)
		if lockers[e.pid] && (!e.second || !e.granted) { // a gate that is open to somebody is no lock
			wanted[e.key] = true
		}
	}
	all := make([]locker.Status, 0, len(wanted))
	for k := range wanted {
		s := statusOf(k, byKey[k], waiters)
		s.Name = nameOf(k)
		all = append(all, s)
	}
	return all
}
