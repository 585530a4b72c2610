package redisbackend

import (
	"slices"
	"time"

	"github.com/fencedlock/locker/driver"
)

const (
	mostFormer = 1 << 15 // owners; about 4 megabytes
	sweepEvery = 1 << 12 // additions between two sweeps at least, because a sweep looks at all

	// ghostDelay is for how long a request may be on its way when it has left this process: Linux
	// sends what is in a send buffer for up to 100 s.
	ghostDelay = 5 * time.Minute
)

// formerOwners are the owners of this Locker's acquisitions that are over, if they may be granted
// their lock all the same: they had a place in the queue, which a server may have again that missed
// the release (a failover, a crash), or a copy of their request may still be executed, and take a
// place. Such a grant is a ghost.
//
// A grant to an owner that isn't known is not: a running process may be copied, as a virtual machine
// is cloned, and its copy listens on the same channel. What is granted to the copy is not ours to
// release.
//
// An owner is kept for a limited time, and the number of owners is limited. Those whose time is over
// go first, as far as the last sweep has found them, and then those that came first. If one is dropped
// too early, its ghost has the lock for one TTL.
type formerOwners struct {
	until map[string]driver.Instant
	order []string // the one that came first is the first
	added int      // since sweep has looked at all
}

// add notes an owner. lingers is for how long its requests may still be under way, or what they have
// left may exist.
func (f *formerOwners) add(owner string, lingers time.Duration) {
	now := driver.Stamp()
	if f.until == nil {
		f.until = make(map[string]driver.Instant)
	}
	if _, again := f.until[owner]; !again {
		f.makeRoom(now)
		f.order = append(f.order, owner)
	}
	f.until[owner] = now.Add(lingers + ghostDelay)
}

// makeRoom makes room for one more.
func (f *formerOwners) makeRoom(now driver.Instant) {
	for len(f.order) > 0 && f.until[f.order[0]] < now {
		f.dropFirst()
	}
	if f.added++; len(f.order) >= mostFormer && f.added >= sweepEvery {
		f.sweep(now)
	}
	if len(f.order) >= mostFormer {
		f.dropFirst()
	}
}

// sweep drops all whose time is over. They aren't in the order of their ends, because TTLs differ.
func (f *formerOwners) sweep(now driver.Instant) {
	f.added = 0
	f.order = slices.DeleteFunc(f.order, func(owner string) bool {
		over := f.until[owner] < now
		if over {
			delete(f.until, owner)
		}
		return over
	})
}

func (f *formerOwners) dropFirst() {
	delete(f.until, f.order[0])
	f.order = f.order[1:]
}

func (f *formerOwners) has(owner string) bool {
	until, known := f.until[owner]
	return known && driver.Stamp() <= until
}
