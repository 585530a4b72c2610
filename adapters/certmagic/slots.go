package certmagiclocker

import (
	"sync"

	"github.com/fencedlock/locker"
)

// slots has a slot for each lock that this process holds or waits for. CertMagic unlocks by name, so
// within the process one caller at a time has the lock of that name, from Lock until Unlock, even if
// its lease was lost between them. So the Unlock of one caller doesn't release another one's lease, unless
// certmagic.CleanUpOwnLocks has unlocked all names meanwhile.
type slots struct {
	mu    sync.Mutex
	named map[string]*slot
}

type slot struct {
	taken    chan struct{} // full while a caller has the slot
	renewing chan struct{} // full while a call of RenewLockLease asks for the lock: two would exclude each other
	users    int           // callers that have the slot or wait for it; guarded by slots.mu
	held     *holding      // nil: not locked; guarded by slots.mu
}

// holding is a lease with an identity: the type of a lease is the program's own, and may be one that
// can't be compared.
type holding struct{ locker.Lease }

// enter returns the slot of name, for a caller that then waits for it. leave is its counterpart.
func (s *slots) enter(name string) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.named[name]
	if found == nil {
		found = &slot{taken: make(chan struct{}, 1), renewing: make(chan struct{}, 1)}
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

// find returns the slot of name, or nil if no caller has it or waits for it.
func (s *slots) find(name string) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.named[name]
}

// leaseOf returns the lease of a slot, or nil if the lock isn't held. The slot may be nil.
func (s *slots) leaseOf(of *slot) *holding {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of == nil {
		return nil
	}
	return of.held
}

// replace sets the lease of a slot, unless it has another one than before.
func (s *slots) replace(in *slot, before, next *holding) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.held != before {
		return false
	}
	in.held = next
	return true
}
