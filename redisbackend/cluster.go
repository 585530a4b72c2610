package redisbackend

import (
	"time"

	"github.com/fencedlock/locker/driver"
)

// In a Cluster the keys of a slot may be moving to another server for some time. Meanwhile both
// servers refuse a script with several keys (TRYAGAIN) if only some of the keys are there, and
// there is hardly a lock that has all five. A script with one key is always executed: where the key
// is, or by the new server if it is nowhere. So leases are renewed and released by scripts with one
// key each. Nothing is lost by that, because nobody queues in a Cluster.
//
// To acquire takes several keys at one moment. That is refused until the slot has moved.

var (
	renewOneScript     = loadScript("renew_one.lua", 1)
	keepOneScript      = loadScript("keep_one.lua", 2)
	releaseOneScript   = loadScript("release_one.lua", 1)
	tombstoneOneScript = loadScript("tombstone_one.lua", 5)
)

// keepEvery is how often the last token of a lease is renewed. Each time it gets a minute more than
// it needs (kept.lua), and ten seconds of that are for requests that are slow.
const keepEvery = 50 * time.Second

// movingPause is between the requests of a waiter while the slot of its lock is on the move, in
// addition to the pauses of send.
const movingPause = 100 * time.Millisecond

func (d *redisDriver) renewScript() *script {
	if d.router.conn.Cluster != nil {
		return renewOneScript
	}
	return renewScript
}

// tokensDue lists the leases whose last tokens are to be renewed together with them, as renew.lua does
// by itself.
func (d *redisDriver) tokensDue(locks []driver.Lock, now driver.Instant) (due []*lock) {
	if d.router.conn.Cluster == nil {
		return nil
	}
	for _, l := range locks {
		if l := l.(*lock); l.isTokenDue(now) {
			due = append(due, l)
		}
	}
	return due
}

// isTokenDue reports whether it is time to renew the last token.
func (l *lock) isTokenDue(now driver.Instant) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.remains != none && l.token != 0 && now.Sub(l.tokenKept) >= keepEvery
}

func (l *lock) noteTokenKept(sent driver.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokenKept = max(l.tokenKept, sent)
}
