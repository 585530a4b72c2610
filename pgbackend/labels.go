package pgbackend

import (
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/pgsession"
)

// Who holds a lock or waits for it is written into a table, for people who look (inspect.go): the
// lock table has no names. Nothing rests on that table, and it is in nobody's way:
//
//   - A row is written in the background, after the first renewal of a lease or a wait was answered.
//     So what is shorter than about a third of its TTL costs nothing.
//   - Rows are written and removed together, one statement at a time for the whole Locker. Such a
//     statement is small, finds its rows by an index, and waits for locks of the table no longer than
//     lock_timeout, so calls that are sent after it wait for a few milliseconds. The table isn't
//     logged, so a commit doesn't wait for the disk. A write may, when the table has to grow: on a
//     disk that stalls for longer than the rest of a TTL, a lease of that connection is lost.
//   - A failure is nobody's error. If the table is missing, or not permitted, the connection writes
//     no more rows. After any other failure there is a pause.
//
// A holder that says nothing of itself has a row without a label.
//
// A row belongs to a key and to the connection that the lease is attached to, or that the wait is
// on. So a lease that has moved gets another row. A row of a connection that has ended says nothing
// about a holder, but has the name of its key.

const (
	labelAge     = 5                      // a lease or a wait gets a row when it is older than this part of its TTL: from its first renewal on, but not from one by hand just after the grant
	labelBatch   = 100                    // rows that one statement removes
	labelPause   = 100 * time.Millisecond // between statements, so that they are about many rows
	labelBackoff = time.Minute            // after a failure
	mostDoomed   = 10_000                 // rows that wait for their removal
)

// rowID identifies a row of the table.
type rowID struct {
	key      key
	presence uint32
}

// row is what one acquisition has in the table. The zero row is none.
type row struct {
	rowID
	conn  *conn
	token locker.Token // 0: of one that waits
}

// labels are the rows of one Locker.
type labels struct {
	d   *pgDriver
	off bool

	mu        sync.Mutex
	wanted    map[rowID]*lock // rows to be written
	written   map[rowID]*lock // rows that exist, or may
	doomed    map[rowID]*conn // rows to be removed
	isRunning bool            // a task executes statements, or is about to
	paused    driver.Instant  // until then nothing is executed
	late      *pgsession.Call // the last statement, if its answer has not come in time
	isSwept   bool            // there are no more old rows of others
}

func newLabels(d *pgDriver, off bool) *labels {
	return &labels{d: d, off: off, wanted: make(map[rowID]*lock), written: make(map[rowID]*lock), doomed: make(map[rowID]*conn), paused: driver.Stamp()}
}

// renewed is called when renewals were answered. Locks that are old enough get rows, or other ones
// if they have moved.
func (n *labels) renewed(locks []*lock) {
	if n.off {
		return
	}
	now := driver.Now()
	var some []*lock
	var rows []row
	for _, l := range locks {
		if r, ok := l.wantedRow(now); ok {
			some, rows = append(some, l), append(rows, r)
		}
	}
	if len(some) == 0 {
		return
	}
	n.mu.Lock()
	if now >= n.paused {
		for i, l := range some {
			n.want(l, rows[i])
		}
	}
	n.unlock()
}

// wantedRow is the row that the lock should have now.
func (l *lock) wantedRow(now driver.Instant) (r row, ok bool) {
	l.mu.Lock()
	c, token, since := l.attached, l.token, l.since
	if c == nil && l.queued {
		c, token = l.waiter, 0
	}
	l.mu.Unlock()
	if c == nil || now.Sub(since) < l.ttl/labelAge || !c.Blocks && !c.takesLabels.Load() {
		return r, false
	}
	return row{rowID{l.key, c.tokens.presence}, c, token}, true
}

func (n *labels) want(l *lock, r row) {
	if l.row == r || l.hasNoRow {
		return
	}
	if l.row.rowID != r.rowID {
		n.forget(l)
	}
	l.row = r
	n.wanted[r.rowID] = l
}

// ended is called when everything of an acquisition is removed.
func (n *labels) ended(l *lock) {
	if n.off {
		return
	}
	n.mu.Lock()
	l.hasNoRow = true
	n.forget(l)
	n.unlock()
}

// forget has the row of a lock removed.
func (n *labels) forget(l *lock) {
	id := l.row.rowID
	if n.wanted[id] == l {
		delete(n.wanted, id)
	}
	if n.written[id] == l {
		delete(n.written, id)
		if len(n.doomed) < mostDoomed {
			n.doomed[id] = l.row.conn
		}
	}
	l.row = row{}
}

// unlock unlocks the mutex, and starts the task if there is something to do.
func (n *labels) unlock() {
	starts := !n.isRunning && n.hasWork()
	n.isRunning = n.isRunning || starts
	n.mu.Unlock()
	if starts {
		n.d.tasks.Go(n.run) // it is false when the Locker is closed: then removeAll does the rest
	}
}

// hasWork reports whether there is something that may be executed now.
func (n *labels) hasWork() bool {
	if len(n.wanted) == 0 && len(n.doomed) == 0 || driver.Stamp() < n.paused {
		return false
	}
	if n.late != nil {
		select {
		case <-n.late.Done():
			n.late = nil
		default: // a server that is slow isn't sent more
			return false
		}
	}
	return true
}
