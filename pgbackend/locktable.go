package pgbackend

import (
	"context"
	"fmt"
	"sync"

	"github.com/fencedlock/locker/internal/pgsession"
)

// The lock table is one for all clients of the server, and when it is full, statements of others
// fail: inserts, even connects. As documented it has room for max_locks_per_transaction ×
// (max_connections + max_prepared_transactions) locks. So a Locker may have half of that, a number
// that is fixed when the Locker is opened, and it isn't opened while more than half of the table is
// taken. That bounds one Locker. Several Lockers may fill the table together: the server's error
// about that is named like the Locker's own (see tableIsFull).

// names are the names in use by acquisitions of a Locker, each of which may have a lock.
type names struct {
	limit int // how many locks the Locker may have

	mu    sync.Mutex
	inUse map[key]*named
}

// named is the text of a name and slot in use.
type named struct {
	text string
	uses int
}

// perWaiter is how many locks an acquisition has that waits: the gate and the lock.
const perWaiter = 2

// join notes that an acquisition uses a name, until leave. It refuses a name whose key another name
// has, and one more name than the lock table has room for. waiters is how many connections of
// waiters there are.
func (n *names) join(l *lock, waiters int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	use := n.inUse[l.key]
	switch {
	case use == nil && len(n.inUse)+perWaiter*waiters >= n.limit:
		return fmt.Errorf("%w: this Locker may have %d locks, half of those that the table has room for; raise max_locks_per_transaction",
			ErrLockTable, n.limit)
	case use == nil:
		n.inUse[l.key] = &named{l.text, 1}
	case use.text != l.text:
		return fmt.Errorf("%w: %q", ErrCollision, use.text)
	default:
		use.uses++
	}
	return nil
}

func (n *names) leave(l *lock) {
	n.mu.Lock()
	defer n.mu.Unlock()
	use := n.inUse[l.key]
	if use.uses--; use.uses == 0 {
		delete(n.inUse, l.key)
	}
}

// textOf is the text in use that has a key; "" if this Locker knows none.
func (n *names) textOf(k key) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if use := n.inUse[k]; use != nil {
		return use.text
	}
	return ""
}

// lockLimit is how many locks a Locker may have on a server.
func lockLimit(s pgsession.Server) int { return s.LocksPerTx * (s.Connections + s.Prepared) / 2 }

// locksTaken is SQL: how many places in the lock table are taken. It is two tables: one of locks, and one
// of their holders and waiters, which has twice as many places. The fuller one counts. pg_locks has a row
// for each mode that a holder or waiter has. It also has what transactions at SERIALIZABLE have read
// (SIReadLock), which is in a table of its own. The type xid has no order, by which DISTINCT would sort.
const locksTaken = "SELECT greatest(count(DISTINCT (locktype, database, relation, page, tuple, virtualxid, transactionid::text, classid, objid, objsubid)), count(*) / 2)" +
	" FROM pg_locks WHERE NOT fastpath AND mode <> 'SIReadLock'"

// checkRoom refuses a server whose lock table is half full. It is asked once: a look costs some
// milliseconds where there are many locks.
func checkRoom(ctx context.Context, s *pgsession.Session, limit int) error {
	r, err := s.Exec(ctx, locksTaken)
	if err != nil {
		return err
	}
	if taken := int(r.Int(0, 0)); taken >= limit {
		return fmt.Errorf("%w: of %d locks that it has room for, %d are taken, and more than half must stay free; raise max_locks_per_transaction",
			ErrLockTable, 2*limit, taken)
	}
	return nil
}

// tableIsFull says what to do about the server's error that its lock table is full. Other errors are
// returned as they are. A server that lacks other memory has the same code, and texts are in the server's
// language. But the hint names the setting.
func tableIsFull(err error) error {
	if !pgsession.Says(err, codeNoMemory) || !pgsession.Hints(err, "max_locks_per_transaction") {
		return err
	}
	return fmt.Errorf("%w: it is full; raise max_locks_per_transaction: %w", ErrLockTable, err)
}
