package pgbackend

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/pgsession"
)

// The task that writes and removes rows.

// run executes what there is to do, now and after each pause, until there is nothing.
func (n *labels) run(ctx context.Context) {
	for n.step(ctx) && kit.Sleep(ctx, labelPause) {
	}
}

func (n *labels) step(ctx context.Context) bool {
	n.mu.Lock()
	if !n.hasWork() {
		n.isRunning = false
		n.mu.Unlock()
		return false
	}
	doomed, wanted := n.doomed, n.wanted
	n.doomed, n.wanted = make(map[rowID]*conn), make(map[rowID]*lock)
	writes := make(map[*conn][]write)
	for id, l := range wanted {
		n.written[id] = l
		writes[l.row.conn] = append(writes[l.row.conn], write{l.row, l})
	}
	n.mu.Unlock()
	n.remove(ctx, doomed)
	for c, some := range writes {
		for _, part := range batches(some) {
			n.write(ctx, c, part)
		}
	}
	return true
}

// write is a row to be written, of a lock.
type write struct {
	row
	l *lock
}

// remove removes rows. Those that can't be removed, because there is no connection for it, are left
// to a later sweep.
func (n *labels) remove(ctx context.Context, doomed map[rowID]*conn) {
	by := make(map[*conn][]rowID)
	for id, c := range doomed {
		if on := n.executor(c); on != nil {
			by[on] = append(by[on], id)
		}
	}
	for on, ids := range by {
		for part := range slices.Chunk(ids, labelBatch) {
			if _, err := n.exec(ctx, on, n.d.schema.deleteRows(part)); err != nil {
				n.doomAgain(part, on)
			}
		}
	}
}

// doomAgain keeps rows to be removed after the pause, if their connection is still of use: a later
// lease there would be described by them.
func (n *labels) doomAgain(ids []rowID, c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		if len(n.doomed) < mostDoomed && c.Err() == nil && c.takesLabels.Load() {
			n.doomed[id] = c
		}
	}
}

// write writes rows of leases and waits on one connection. If that fails, they are wanted again by a
// later renewal.
func (n *labels) write(ctx context.Context, c *conn, some []write) {
	err := errNotNeeded
	on := n.executor(c)
	if on != nil {
		_, err = n.exec(ctx, on, n.d.schema.writeRows(some, driver.Now()))
	}
	if err == nil {
		n.sweep(ctx, on)
		return
	}
	if errors.Is(err, kit.ErrNoAnswer) && !errors.Is(err, kit.ErrNotSent) {
		return // they may come to exist
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

// executor is a connection on which statements about rows of c are executed; nil if there is none.
func (n *labels) executor(c *conn) *conn {
	usable := func(c *conn) bool { return c != nil && c.Err() == nil && c.takesLabels.Load() }
	if usable(c) {
		return c
	}
	if other := c.pool.existingShared(); usable(other) && other.tokens.serverID == c.tokens.serverID {
		return other
	}
	return nil
}

// exec executes a statement, unless there is a pause. It doesn't take turns with others: a statement
// that is waited for must not keep a renewal from being sent.
func (n *labels) exec(ctx context.Context, c *conn, sql string) (*pgsession.Call, error) {
	n.mu.Lock()
	isPaused := driver.Stamp() < n.paused
	n.mu.Unlock()
	if isPaused {
		return nil, errNotNeeded
	}
	ctx, cancel := context.WithTimeout(ctx, maxCall)
	defer cancel()
	call, err := c.BeginAlongside(ctx, sql)
	if err == nil {
		err = c.Wait(ctx, call)
	}
	switch {
	case err == nil, pgsession.Ended(err):
	case pgsession.Says(err, codeNoTable, codeNoColumn, codeNoSchema, codePermission, codeReadOnly):
		c.takesLabels.Store(false)
	default:
		n.mu.Lock()
		n.paused = driver.Stamp().Add(labelBackoff)
		if !pgsession.Refused(err) {
			n.late = call
		}
		n.mu.Unlock()
	}
	return call, err
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

// removeAll removes the rows of a Locker that is being closed. Nobody waits for the answers: the
// goodbye comes after these statements.
func (n *labels) removeAll() {
	n.mu.Lock()
	conns := make(map[*conn]bool)
	for _, l := range n.written {
		conns[l.row.conn] = true
	}
	for c := range maps.Values(n.doomed) {
		conns[c] = true
	}
	n.mu.Unlock()
	by := make(map[*conn][]uint32)
	for c := range conns {
		if on := n.executor(c); on != nil {
			by[on] = append(by[on], c.tokens.presence)
		}
	}
	for on, presences := range by {
		_, _ = on.BeginAlongside(context.Background(), n.d.schema.deleteRowsOf(presences))
	}
}
