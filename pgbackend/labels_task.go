package pgbackend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/pgsession"
)

// The task that writes and removes rows.

// run executes what there is to do, now and after each pause, until there is nothing.
func (n *labels) run(ctx context.Context) {
	for pause := n.step(ctx); pause > 0 && kit.Sleep(ctx, pause); pause = n.step(ctx) {
	}
}

// step executes what can be executed now. It returns the time until the next step; 0 if there is nothing
// left to do.
func (n *labels) step(ctx context.Context) time.Duration {
	n.mu.Lock()
	if !n.hasWork() {
		n.isRunning = false
		n.mu.Unlock()
		return 0
	}
	doomed, wanted := slices.Collect(maps.Values(n.doomed)), n.wanted
	n.wanted = make(map[rowID]*lock)
	writes := make(map[*conn][]write)
	for id, l := range wanted {
		n.written[id] = l
		writes[l.row.conn] = append(writes[l.row.conn], write{l.row, l})
	}
	n.mu.Unlock()
	onlyWaits := n.remove(ctx, doomed) && len(wanted) == 0
	for c, some := range writes {
		for _, part := range batches(some) {
			n.write(ctx, c, part)
		}
	}
	if onlyWaits {
		return labelLook
	}
	return labelPause
}

// write is a row to be written, of a lock.
type write struct {
	row
	l *lock
}

// remove removes rows. Those that can't be removed now are kept until after the pause. Where there is
// no connection for it any more, they are left. It reports whether it could only wait for the end of pauses.
func (n *labels) remove(ctx context.Context, doomed []row) (onlyWaits bool) {
	by := make(map[*conn][]row)
	for _, r := range doomed {
		if on := n.executor(r.conn); on != nil {
			by[on] = append(by[on], r)
			continue
		}
		r.leave() // first: see clear
		n.mu.Lock()
		n.forgetDoomed(r)
		n.mu.Unlock()
	}
	onlyWaits = len(by) > 0
	for on, rows := range by {
		for part := range slices.Chunk(rows, labelBatch) {
			err := n.delete(ctx, on, part)
			onlyWaits = onlyWaits && errors.Is(err, errRowsPaused)
			if err != nil {
				break
			}
		}
	}
	return onlyWaits
}

// delete deletes rows on a connection.
func (n *labels) delete(ctx context.Context, on *conn, rows []row) error {
	if _, err := n.exec(ctx, on, n.d.schema.deleteRows(rows)); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range rows {
		n.forgetDoomed(r)
	}
	return nil
}

// forgetDoomed notes that a row needn't be removed, unless it is another one by now.
func (n *labels) forgetDoomed(r row) {
	if n.doomed[r.rowID] == r {
		delete(n.doomed, r.rowID)
	}
}

// write writes rows of leases and waits on one connection, without those that have ended meanwhile.
// If that fails, they are wanted again by a later renewal.
func (n *labels) write(ctx context.Context, c *conn, some []write) {
	err := errNotNeeded
	on := n.executor(c)
	if some = n.beginSending(some); len(some) > 0 && on != nil {
		_, err = n.execThen(ctx, on, n.d.schema.writeRows(some, driver.Now()), n.endSending)
	}
	n.endSending()
	if err == nil {
		n.sweep(ctx, on)
		return
	}
	if !errors.Is(err, errNotNeeded) && !errors.Is(err, kit.ErrNotSent) && !pgsession.Refused(err) {
		if on != c { // they may come to exist, and what c says doesn't come after that
			c.resign()
		}
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range some {
		if n.written[w.rowID] == w.l {
			delete(n.written, w.rowID)
		}
		if w.l.row == w.row {
			w.l.row = row{}
		}
	}
}

// beginSending returns those rows that are still to be written. From then on until endSending, a
// caller that asks for a lock of theirs can't know what comes first: the row, or its removal.
func (n *labels) beginSending(some []write) []write {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sending = slices.DeleteFunc(some, func(w write) bool { return n.written[w.rowID] != w.l })
	return n.sending
}

func (n *labels) endSending() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sending = nil
}

// executor is a connection on which statements about rows of c are executed; nil if there is none.
func (n *labels) executor(c *conn) *conn {
	usable := func(c *conn) bool { return c != nil && c.Err() == nil && c.takesLabels.Load() }
	if usable(c) {
		return c
	}
	if other := c.pool.chooseShared(); usable(other) && other.tokens.serverID == c.tokens.serverID {
		return other
	}
	return nil
}

// errRowsPaused says that a statement about rows was not sent: there is a pause on its connection.
var errRowsPaused = fmt.Errorf("a pause after a failure: %w", kit.ErrNotSent)

// exec executes a statement, unless there is a pause. It doesn't take turns with others: a statement
// that is waited for must not keep a renewal from being sent.
func (n *labels) exec(ctx context.Context, c *conn, sql string) (*pgsession.Call, error) {
	return n.execThen(ctx, c, sql, func() {})
}

// execThen is exec. It calls sent when all that is sent from then on comes after the statement.
func (n *labels) execThen(ctx context.Context, c *conn, sql string, sent func()) (*pgsession.Call, error) {
	n.mu.Lock()
	isPaused := c.rowsArePaused()
	n.mu.Unlock()
	if isPaused {
		return nil, errRowsPaused
	}
	limited, cancel := context.WithTimeout(ctx, maxCall)
	defer cancel()
	call, err := c.BeginAlongside(limited, sql)
	if err == nil {
		sent()
		err = c.Wait(limited, call)
	}
	if err != nil && !pgsession.Ended(err) && !c.losesTable(err) {
		n.failed(c, call, err, ctx.Err() != nil)
	}
	return call, err
}

// failed begins a pause on the connection after a failure, unless it is only that the caller of an
// acquisition has left.
func (n *labels) failed(c *conn, call *pgsession.Call, err error, hasLeft bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !hasLeft {
		c.rowsPaused = driver.Stamp().Add(labelBackoff)
	}
	if call != nil && !pgsession.Refused(err) {
		c.rowsLate = call
	}
}

// losesTable reports whether err says that the table of leases is of no use any more. Then nothing
// more is written there on this connection.
func (c *conn) losesTable(err error) bool {
	if !pgsession.Says(err, codeNoTable, codeNoColumn, codeNoSchema, codePermission, codeReadOnly) {
		return false
	}
	c.takesLabels.Store(false)
	return true
}

// sweep removes old rows of connections that have ended: some of them after each statement that has
// written rows, until there are no more, or it has failed.
func (n *labels) sweep(ctx context.Context, c *conn) {
	n.mu.Lock()
	done := n.isSwept
	n.mu.Unlock()
	if done {
		return
	}
	r, err := n.exec(ctx, c, n.d.schema.sweepRows())
	more := err == nil && len(r.Rows) == 1 && r.Int(0, 0) == sweepBatch
	n.mu.Lock()
	n.isSwept = !more
	n.mu.Unlock()
}

// close removes the rows of a Locker that is being closed. It waits for the end of the task, which
// may have taken rows to be removed, or send a row once more. Nobody waits for the answers: the
// goodbye comes after these statements.
func (n *labels) close(ctx context.Context) {
	n.tasks.Stop(locker.ErrClosed)
	if n.tasks.Wait(ctx) != nil {
		return
	}
	n.mu.Lock()
	conns := make(map[*conn]bool)
	for _, l := range n.written {
		conns[l.row.conn] = true
	}
	for r := range maps.Values(n.doomed) {
		conns[r.conn] = true
	}
	n.mu.Unlock()
	by := make(map[*conn][]uint32)
	for c := range conns {
		if on := n.executor(c); on != nil {
			by[on] = append(by[on], c.tokens.presence)
		}
	}
	for on, presences := range by {
		_, _ = on.BeginAlongside(context.WithoutCancel(ctx), n.d.schema.deleteRowsOf(presences))
	}
}
