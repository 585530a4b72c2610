package pgbackend

import (
	"context"
	"fmt"
)

// The lock table is one for all clients of the server, and when it is full, statements of others fail: inserts, even connects. As
// documented it has room for max_locks_per_transaction × (max_connections + max_prepared_transactions) locks, and locks of this
// package never fill more than half of that. How full it is, is looked up now and then: a look costs some milliseconds where there
// are many locks. In between each Locker may take an eighth of what is left, so that several that look at the same time don't
// overfill it together.

const (
	lookShare = 8 // the part of what is left that may be taken before the next look
	perWaiter = 2 // locks of an acquisition that waits: the gate and the lock
)

// makeRoom refuses an acquisition for which the lock table has no room.
func (d *pgDriver) makeRoom(ctx context.Context, l *lock) error {
	if _, enough := d.room(); enough {
		return nil
	}
	select { // the others wait for the same answer
	case d.looking <- struct{}{}:
		defer func() { <-d.looking }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if _, enough := d.room(); enough {
		return nil
	}
	c, err := l.conn(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, maxCall) // of the waiting
	defer cancel()
	return d.lookForRoom(ctx, c)
}

func (d *pgDriver) lookForRoom(ctx context.Context, c *conn) error {
	used, _ := d.room()
	r, err := c.exec(ctx, "SELECT count(*) FROM pg_locks WHERE NOT fastpath")
	if err != nil {
		return err
	}
	return d.allow(used, int(r.int(0, 0)))
}

// room returns how many locks this Locker has, and whether it may have one more without a look.
func (d *pgDriver) room() (used int, enough bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	used = len(d.names) + perWaiter*d.waiters
	return used, used <= d.allowed
}

// allow takes in how many locks there are in the table. used are this Locker's.
func (d *pgDriver) allow(used, inTable int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := d.tableSize/2 - inTable
	if left <= 0 {
		return fmt.Errorf("%w: of %d locks it has room for, %d are taken, and more than half must stay free; raise max_locks_per_transaction",
			ErrLockTable, d.tableSize, inTable)
	}
	d.allowed = used + left/lookShare
	return nil
}
