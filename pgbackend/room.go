package pgbackend

import (
	"context"
	"fmt"

	"github.com/fencedlock/locker/internal/pgsession"
)

// The lock table is one for all clients of the server, and when it is full, statements of others fail: inserts, even connects. As
// documented it has room for max_locks_per_transaction × (max_connections + max_prepared_transactions) locks, and locks of this
// package stop at half of that. How full it is, is looked up now and then: a look costs some milliseconds where there are many locks.
// In between each Locker may take an eighth of what is left, divided by the number of connections that Lockers have, beyond what it has at
// that moment: so all of them together may take an eighth beyond what they see. What a Locker gives back isn't kept for it, as others may
// have taken that since. Those that have looked when there were fewer Lockers, and fewer locks, may take more; but of a thousand that
// came one after the other all together less than what was left for the first one (1/8 + 1/16 + 1/24 …), so the other half of the table
// doesn't get full. A new connection, maybe to another server, begins with a look.

const (
	lookShare = 8 // the part of what is left that may be taken before the next look
	perWaiter = 2 // locks of an acquisition that waits: the gate and the lock
)

// makeRoom refuses an acquisition for which the lock table has no room.
func (c *conn) makeRoom(ctx context.Context) error {
	if _, enough := c.d.room(); enough {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxCall) // of the waiting
	defer cancel()
	select { // the others wait for the same answer
	case c.looking <- struct{}{}:
		defer func() { <-c.looking }()
	case <-ctx.Done():
		return pgsession.ErrNoAnswer
	}
	if _, enough := c.d.room(); enough {
		return nil
	}
	err := c.lookForRoom(ctx)
	if err != nil && c.isRetired() {
		return errRetired
	}
	return err
}

func (c *conn) lookForRoom(ctx context.Context) error {
	used, _ := c.d.room()
	r, err := c.exec(ctx, fmt.Sprintf("SELECT count(*), count(*) FILTER (WHERE classid = %d AND objsubid = 2 AND objid <> 0 AND mode = 'ExclusiveLock')"+
		" FROM pg_locks WHERE NOT fastpath", ownSpace))
	if err != nil {
		return err
	}
	return c.d.allow(used, int(r.Int(0, 0)), int(r.Int(0, 1)))
}

// room returns how many locks this Locker has, with the one that it is about to take, and whether it may have them without a look.
func (d *pgDriver) room() (used int, enough bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	used = d.shrinkRoom()
	return used, used <= d.allowed
}

// shrinkRoom returns how many locks this Locker has, and lets go of what it may have beyond its share. d.mu is held.
func (d *pgDriver) shrinkRoom() (used int) {
	used = len(d.names) + perWaiter*d.waiters
	d.allowed = min(d.allowed, used+d.share)
	return used
}

// forgetRoom has the next acquisition look.
func (d *pgDriver) forgetRoom() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.allowed, d.share = 0, 0
}

// allow takes in how many locks there are in the table, and how many connections of Lockers, by their signs of life. used are this
// Locker's locks.
func (d *pgDriver) allow(used, inTable, connections int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := d.tableSize/2 - inTable
	if left <= 0 {
		return fmt.Errorf("%w: of %d locks it has room for, %d are taken, and more than half must stay free; raise max_locks_per_transaction",
			ErrLockTable, d.tableSize, inTable)
	}
	d.share = left / (lookShare * max(connections, 1))
	d.allowed = used + d.share
	return nil
}
