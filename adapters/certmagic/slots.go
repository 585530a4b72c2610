package certmagiclocker

import (
	"sync"

	"github.com/fencedlock/locker"
)

// slots has a slot for each lock that this process holds or waits for. CertMagic unlocks by name, so
// within the process one caller at a time has the lock of that name, from Lock until Unlock, even if
// its lease was lost between them. So Unlock never releases another caller's lease.
type slots struct {
	mu    sync.Mutex
	named map[string]*slot
}

type slot struct {
	taken chan struct{} // full while a caller has the slot
	users int           // callers that have the slot or wait for it; guarded by slots.mu
	lease locker.Lease  // nil: not locked; guarded by slots.mu
}

// enter returns the slot of name, for a caller that then waits for it. leave is its counterpart.
func (s *slots) enter(name string) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.named[name]
	if found == nil {
		found = &slot{taken: make(chan struct{}, 1)}
		s.named[name] = found
	}
	found.users++
	return found
}

func (s *slots) leave(name string, left *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left.users--
	if left.users == 0 {
		delete(s.named, name)
	}
}

// find returns the slot of name and its lease, or nil if the lock isn't held.
func (s *slots) find(name string) (*slot, locker.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.named[name]
	if found == nil {
		return nil, nil
	}
	return found, found.lease
}

// replace sets the lease of a slot, unless it has another one than before.
func (s *slots) replace(in *slot, before, lease locker.Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.lease != before {
		return false
	}
	in.lease = lease
	return true
}
