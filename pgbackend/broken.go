package pgbackend

import (
	"context"
	"maps"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// The holder's side of Break. An operator writes a breach into the row of the lease. So each
// renewal of leases that have rows is followed by a look for breaches. That look has only a part of
// the renewal's time. If it fails, the renewal doesn't fail, and the next renewal looks again. So
// no lease rests on the table here either.
//
// A lease that moves gets another row, and its first row is removed. The first row may have a
// breach from before the move. So it stays until a look after the move has been answered, and is
// the lease's only row until then.

// broken returns the breaches of the locks that an operator takes away, among locks that were just
// renewed. unread are the connections whose rows could not be read.
func (n *labels) broken(ctx context.Context, locks []*lock) (found map[*lock]locker.Breach, unread map[*conn]bool) {
	rows, unread := n.leasesAmong(locks)
	if len(rows) == 0 {
		return nil, nil
	}
	ctx, cancel := halfOf(ctx)
	defer cancel()
	found = make(map[*lock]locker.Breach)
	for c := range maps.Clone(unread) {
		on := n.executor(c)
		if on == nil {
			continue
		}
		breaches, err := on.look(ctx, n.d.schema.readBreaches(c.tokens.presence))
		if err == nil {
			delete(unread, c)
		}
		for _, breach := range breaches {
			if l := rows[row{breach.rowID, c, breach.token}]; l != nil {
				found[l] = driver.ParseBreach(breach.text)
			}
		}
	}
	return found, unread
}

// leasesAmong returns the rows of leases, and their connections.
func (n *labels) leasesAmong(locks []*lock) (rows map[row]*lock, conns map[*conn]bool) {
	rows, conns = make(map[row]*lock), make(map[*conn]bool)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range locks {
		if l.row.token != 0 && n.written[l.row.rowID] == l {
			rows[l.row], conns[l.row.conn] = l, true
		}
	}
	return rows, conns
}

// look executes a statement of readBreaches. There are never many of them under way: each follows the
// answer to a renewal.
func (c *conn) look(ctx context.Context, sql string) ([]foundBreach, error) {
	call, err := c.BeginAlongside(ctx, sql)
	if err == nil {
		err = c.Wait(ctx, call)
	}
	if err != nil {
		c.losesTable(err)
		return nil, err
	}
	return foundBreaches(call), nil
}
