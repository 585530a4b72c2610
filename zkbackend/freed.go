package zkbackend

import (
	"sync"
	"time"
)

// Each acquisition writes to the lock's node, so the version of that node counts them. When a lease
// is over, nobody was before it. So the lock is free as long as its node has the version that this
// lease gave it. A TryAcquire that comes soon after needs no read for that: its only request fails
// if the node has another version.
//
// A version says nothing once the servers have removed the node and somebody has created it again.
// Then the request may succeed though the lock is held, and the number of children in its answer
// says so: no grant depends on what is remembered. But there is a node then that waits for the
// holder, and if the answer is lost, that node keeps the lock from others until its session ends,
// though its owner never wanted to wait. So only versions are remembered that a new node doesn't
// reach soon.

// freed are the versions of nodes of locks at the end of own leases.
type freed struct {
	mu       sync.Mutex
	versions map[string]freedAt
}

type freedAt struct {
	version int32
	at      time.Time
}

const (
	// maxFreed bounds the memory, a few hundred bytes each.
	maxFreed = 1024

	// rememberFreed is much shorter than the minute between two looks of the servers for empty
	// containers, so a node is seldom removed and created again in that time.
	rememberFreed = 10 * time.Second

	// minRemembered is how many acquisitions a new node would need within rememberFreed. A lock that
	// is used less often than that can afford the read.
	minRemembered = 16
)

// remember notes the version that this Locker's lease has given the lock's node. The lease is over.
func (f *freed) remember(dir string, version int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if version < minRemembered {
		delete(f.versions, dir) // what is remembered is the version of an earlier node
		return
	}
	if f.versions == nil {
		f.versions = make(map[string]freedAt)
	}
	if _, known := f.versions[dir]; !known && len(f.versions) >= maxFreed {
		for some := range f.versions { // any
			delete(f.versions, some)
			break
		}
	}
	f.versions[dir] = freedAt{version, time.Now()}
}

// take returns the version with which a lock is free, if it is known, and forgets it.
func (f *freed) take(dir string) (version int32, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, known := f.versions[dir]
	delete(f.versions, dir)
	return v.version, known && time.Since(v.at) < rememberFreed
}
