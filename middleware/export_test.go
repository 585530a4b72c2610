package middleware

import "github.com/fencedlock/locker"

// PruneFrom is the least number of leases that are looked at.
const PruneFrom = pruneFrom

// Holdings returns how many leases of tasks l, a result of [Reentrant], knows.
func Holdings(l locker.Locker) int {
	r := l.(*reentrant)
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.holdings)
}
