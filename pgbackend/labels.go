package pgbackend

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

// Who holds a lock or waits for it is written into a table, for people who look (inspect.go): the
// lock table has no names. No lease rests on that table, and it is in nobody's way:
//
//   - A row is written in the background, after the first renewal of a lease or a wait was answered.
//     So what is shorter than about a third of its TTL costs nothing.
//   - Rows are written and removed together, one statement at a time for the whole Locker. Such a
//     statement is small, finds its rows by an index, and waits for locks of the table no longer than
//     lock_timeout, so calls that are sent after it wait for a few milliseconds. The table isn't
//     logged, so a commit doesn't wait for the disk. A write may, when the table has to grow: on a
//     disk that stalls for longer than the rest of a TTL, a lease of that connection is lost.
//   - A failure is nobody's error. If the table is missing, or not permitted, the connection writes
//     no more rows. After any other failure there is a pause, on that connection alone.
//
// A holder that says nothing of itself has a row without a label.
//
// A row belongs to a key and to the connection that the lease is attached to, or that the wait is
// on. So a lease that has moved gets another row. A row of a connection that has ended says nothing
// about a holder, but has the name of its key.
//
// Break (break.go) rests on one more thing: if a session has a lock, and the row of that key and
// session has a token, that is the token of the lease that has the lock. A connection on which a row
// of an earlier lease may be left doesn't take the key again before that row is deleted: see clear.

const (
	labelAge     = 5                      // a lease or a wait gets a row by a renewal after 1/labelAge of its TTL: not by one just after the grant
	labelBatch   = 100                    // rows that one statement removes
	labelPause   = 100 * time.Millisecond // between statements, so that they are about many rows
	labelBackoff = time.Minute            // after a failure
	labelLook    = time.Second            // between looks whether such a pause is over
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
	d     *pgDriver
	off   bool
	tasks *kit.Tasks // of its own, because Close ends them first

	mu        sync.Mutex
	wanted    map[rowID]*lock // rows to be written
	written   map[rowID]*lock // rows that exist, or may
	doomed    map[rowID]row   // rows to be removed, until they are
	isRunning bool            // a task executes statements, or is about to
	sending   []write         // rows of a statement that is being sent: what others send now may come before or after it
	isSwept   bool            // there are no more old rows of others
}

func newLabels(d *pgDriver, off bool) *labels {
	return &labels{
		d: d, off: off, tasks: kit.NewTasks(),
		wanted: make(map[rowID]*lock), written: make(map[rowID]*lock), doomed: make(map[rowID]row),
	}
}

// wantedRows are the rows that locks should have, whose renewals were answered. They come before the
// look for breaches: a lease that moves meanwhile keeps its row, which that look has perhaps missed.
func (n *labels) wantedRows(locks []*lock) (some []write) {
	if n.off {
		return nil
	}
	now := driver.Now()
	for _, l := range locks {
		if r, ok := l.wantedRow(now); ok {
			some = append(some, write{r, l})
		}
	}
	return some
}

// renewed wants rows for leases and waits that have none, or have moved. A lease keeps its row of a
// connection that is unread: that row may have a breach.
func (n *labels) renewed(some []write, unread map[*conn]bool) {
	if len(some) == 0 {
		return
	}
	executors := make(map[*conn]*conn)
	for _, w := range some { // before the mutex is locked, because the pool has one
		if _, known := executors[w.conn]; !known {
			executors[w.conn] = n.executor(w.conn)
		}
	}
	n.mu.Lock()
	for _, w := range some {
		on := executors[w.conn]
		if on != nil && !on.rowsArePaused() && (w.l.row.token == 0 || w.l.row.rowID == w.rowID || !unread[w.l.row.conn]) {
			n.want(w.l, w.row)
		}
	}
	n.unlock()
}

// wantedRow is the row that the lock should have now.
func (l *lock) wantedRow(now driver.Instant) (r row, ok bool) {
	l.mu.Lock()
	c, token, since := l.attached, l.token, l.since
	switch {
	case l.alsoAttached != nil && l.state > handingOver: // it alone has the lock since step 3
		c = l.alsoAttached
	case c == nil && l.queued && token == 0: // it waits, and isn't being released
		c = l.waiter
	}
	l.mu.Unlock()
	if c == nil || now.Sub(since) < l.ttl/labelAge || !c.Blocks && !c.takesLabels.Load() {
		return r, false
	}
	return row{rowID{l.key, c.tokens.presence}, c, token}, true
}

func (n *labels) want(l *lock, r row) {
	if l.row == r || l.hasNoRow || !r.conn.hasReserved(l) {
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

// forget notes that the row of a lock must be removed.
func (n *labels) forget(l *lock) {
	id := l.row.rowID
	if n.wanted[id] == l {
		delete(n.wanted, id)
	}
	if n.written[id] == l {
		delete(n.written, id)
		if len(n.doomed) < mostDoomed {
			n.doomed[id] = l.row
		} else {
			l.row.leave()
		}
	}
	l.row = row{}
}

// leave gives up the removal of a row. The server's later sweeps remove it when the connection has
// ended.
func (r row) leave() {
	if r.token != 0 {
		r.conn.resign()
	}
}

// clear is called when l has reserved its key on c, before it asks for the lock. It makes sure that
// no row says there that an earlier lease has the lock, or will say so. Otherwise the connection
// resigns, and the error is errResigned. If ctx ends before that is known, nothing is asked for,
// and the row is still doomed.
func (n *labels) clear(ctx context.Context, c *conn, l *lock) error {
	if n.off {
		return nil
	}
	left, isUncertain := n.leftOf(c, l)
	switch {
	case c.hasResigned(): // since l has reserved the key, maybe because a row of this key was left
		return errResigned
	case left.token == 0:
		return nil
	case !c.Blocks && !isUncertain:
		err := n.delete(ctx, c, []row{left})
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	c.resign()
	return errResigned
}

// leftOf returns the row that an earlier lease may have for l's key on c; the zero row if there is
// none. The row of a lease that is over isn't written any more, unless it is uncertain whether it
// will be.
func (n *labels) leftOf(c *conn, l *lock) (left row, isUncertain bool) {
	id := rowID{l.key, c.tokens.presence}
	n.mu.Lock()
	defer n.mu.Unlock()
	if other := n.wanted[id]; other != nil && other != l {
		delete(n.wanted, id)
	}
	if other := n.written[id]; other != nil && other != l {
		if c.Blocks { // that lease may have moved, and look there for a breach once more
			return other.row, true
		}
		n.forget(other) // it is over
	}
	isSent := slices.ContainsFunc(n.sending, func(w write) bool { return w.rowID == id })
	return n.doomed[id], c.rowsAreLate() || isSent
}

// unlock unlocks the mutex, and starts the task if there is something to do.
func (n *labels) unlock() {
	starts := !n.isRunning && n.hasWork()
	n.isRunning = n.isRunning || starts
	n.mu.Unlock()
	if starts {
		n.tasks.Go(n.run) // it is false when the Locker is closed: then close does the rest
	}
}

// hasWork reports whether there is something to execute. It may have to wait for the end of a pause.
func (n *labels) hasWork() bool { return len(n.wanted) > 0 || len(n.doomed) > 0 }

// rowsArePaused reports whether no statement about rows is to be executed on c now. The mutex of labels
// is held.
func (c *conn) rowsArePaused() bool {
	return driver.Stamp() < c.rowsPaused || c.rowsAreLate() // a server that is slow isn't sent more
}

// rowsAreLate reports whether a statement about rows, which is not waited for any more, has no answer yet.
// The mutex of labels is held.
func (c *conn) rowsAreLate() bool {
	if c.rowsLate == nil {
		return false
	}
	select {
	case <-c.rowsLate.Done():
		return false
	default:
		return true
	}
}
