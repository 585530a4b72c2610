package pgbackend

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/pgsession"
)

// entry is a row of the lock table.
type entry struct {
	key     key
	second  bool // it is in the space of pairs: a gate, or a lock of the connections' own
	pid     int64
	granted bool
	asked   time.Time     // when its statement began, if it waits and that may be seen
	program string        // the session's application_name
	idle    time.Duration // for how long the session has been idle; negative: that may not be seen
}

// isOwn reports whether the entry is a lock that the connections of Lockers have for themselves,
// and no gate.
func (e entry) isOwn() bool { return e.second && int64(e.key)>>32 == ownSpace }

// foundIn reads the answer of pgDriver.look. In their own space, the connections of Lockers have presence
// locks, the turn (0), and the marks of schemas, whose numbers are OIDs: mark is this schema's. A
// presence lock has a number from 1<<31 on (see tokenSource.begin).
func foundIn(r *pgsession.Call, mark uint32) found {
	f := found{rows: make(map[rowID]leaseRow), presence: make(map[int64]uint32)}
	for i := range r.Rows {
		if row, is := leaseRowOf(r, i); is {
			f.rows[row.rowID] = row
			continue
		}
		e := entry{
			key:     key(r.Int(i, 0)<<32 | r.Int(i, 1)),
			second:  r.Int(i, 2) == 2,
			pid:     r.Int(i, 3),
			granted: r.Bool(i, 4),
			program: r.Value(i, 6),
			idle:    -1,
		}
		if at := r.Int(i, 5); at > 0 {
			e.asked = time.UnixMicro(at)
		}
		if r.Value(i, 7) != "" {
			e.idle = max(time.Duration(r.Int(i, 7))*time.Millisecond, 0)
		}
		if number := uint32(e.key); e.isOwn() && number >= 1<<31 && number != mark { //nolint:gosec // the low half
			f.presence[e.pid] = number
		}
		f.entries = append(f.entries, e)
	}
	return f
}

// party describes who has an entry. If there is no row yet, the name of the program says who it is:
// HOST/PID/PROGRAM, unless the configuration has another name.
func (f found) party(k key, e entry) locker.Party {
	p := locker.Party{Session: strconv.FormatInt(e.pid, 10), Asked: e.asked}
	number, isLocker := f.presence[e.pid]
	row, isWritten := f.rows[rowID{k, number}]
	if !isLocker || !isWritten {
		if e.program != pgsession.DefaultApplication {
			p.Holder = driver.ParseLabel("0 " + strings.TrimPrefix(e.program, applicationPrefix)).Holder
		}
		return p
	}
	driver.ParseLabel(row.label).Describe(&p)
	if e.granted && !e.second {
		p.Token, p.Since = row.token, row.since
		if row.isBroken {
			breach := driver.ParseBreach(row.breach)
			p.Broken = &breach
		}
		if e.idle >= 0 && row.ttl > 0 {
			p.ExpiresIn = max(row.ttl-e.idle, time.Millisecond)
		}
	}
	return p
}

// statusOf describes the lock with a key.
func (f found) statusOf(k key, waiters int) locker.Status {
	own := slices.DeleteFunc(slices.Clone(f.entries), func(e entry) bool { return e.key != k || e.isOwn() })
	return f.status(k, own, waiters)
}

// status describes a lock. entries are the ones with its key, in the order of their waits. A waiter
// for the lock itself has passed the gate, and comes before the waiters at the gate.
func (f found) status(k key, entries []entry, waiters int) locker.Status {
	s := locker.Status{Key: k.String()}
	var first, later []locker.Party
	for _, e := range entries {
		switch p := f.party(k, e); {
		case !e.granted && !e.second:
			first = append(first, p)
		case !e.granted:
			later = append(later, p)
		case !e.second && (s.Holder == nil || s.Holder.Token == 0 && p.Token != 0):
			// While a lease moves, two connections of its Locker have the lock in shared mode.
			s.Holder = &p
		}
	}
	s.Waiting = len(first) + len(later)
	s.Waiters = slices.Concat(first, later)
	s.Waiters = s.Waiters[:min(len(s.Waiters), waiters)]
	return s
}

// statuses describes the locks that sessions of Lockers hold or wait for.
func (f found) statuses(waiters int, textOf func(key) string) []locker.Status {
	lockers := make(map[int64]bool) // their processes
	for _, e := range f.entries {
		if e.isOwn() {
			lockers[e.pid] = true
		}
	}
	byKey := make(map[key][]entry)
	wanted := make(map[key]bool)
	for _, e := range f.entries {
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
		s := f.status(k, byKey[k], waiters)
		s.Name, s.Slot, _ = parseText(textOf(k))
		all = append(all, s)
	}
	return all
}
