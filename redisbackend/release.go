package redisbackend

import (
	"context"
	"time"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

// unsentLimitOf is for how long a request that was given up may still be on its way out of this
// process. The message that it is part of is repeated while its own time lasts, and go-redis may
// write the last copy later still.
func unsentLimitOf(conn *redisconn.Conn) time.Duration { return messageTimeout + conn.Overrun() }

// Release sends nothing if the server has said that nothing is there. Nor does it if what may have been there has
// ended by itself: when it is called again, or for a try without a grant, of which there may be thousands while
// the server is silent, so that the first call is late.
func (l *lock) Release(ctx context.Context) error {
	l.mu.Lock()
	remains, granted := l.remains, l.token != 0
	if remains != none && (l.removing || !granted) && l.hasExpired() {
		remains = none
	}
	l.removing = true
	l.queued = false
	l.mu.Unlock()
	if remains != none {
		if err := l.remove(ctx, granted, remains); err != nil {
			return err
		}
	}
	if l.changed != nil {
		l.d.grants.forget(l)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remains = none
	return nil
}

// remove sends the scripts that remove what l has left. Its error says that some of it may be left.
func (l *lock) remove(ctx context.Context, granted bool, remains remains) (err error) {
	for _, s := range l.removal(granted, remains) {
		r := l.request(s, driver.Stamp())
		r.ttl = max(r.ttl, l.d.unsentLimit) // of the tombstone
		r.late, r.deadlineOnly = remains == arriving, true
		switch a := l.d.router.ask(ctx, r); {
		case s.hasNoRoom(a.err):
			err = a.err
		case a.err != nil:
			return a.err
		}
	}
	return err
}

// hasNoRoom reports whether err says that the memory of a server of a Cluster has no room for a
// tombstone. The removal that follows needs no room. Without a tombstone a late copy of the request may
// take the lock again, for one TTL.
func (s *script) hasNoRoom(err error) bool {
	return s == tombstoneOneScript && redisconn.Says(err, "OOM")
}

func (l *lock) isRemoving() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.removing
}

// hasExpired reports whether whatever l may have left has ended by itself. A service that doesn't
// answer for hours must not make a Locker keep everything that it has tried meanwhile.
//
// What the last request has set or renewed ends a TTL after it was executed, and it was executed
// within another TTL. A request that is delayed even longer may still take the lock, for one TTL: nobody
// believes that he holds it. A Stamp is enough: if it is too early, one more release is sent. l.mu is held.
func (l *lock) hasExpired() bool {
	return driver.Stamp().Sub(l.ended) > l.lingersFor()
}

// lingersFor is how long after its last request l may have something on the server.
func (l *lock) lingersFor() time.Duration { return 2*l.ttl + l.d.unsentLimit }

// removal lists the scripts that remove what an acquisition has left. A tombstone is needed where a
// request that acquires may still arrive: none was answered with a grant, or another copy of the
// one that was is in flight. The tombstone comes before the removal, so that nothing can arrive in
// between. It lasts until this process sends no copy any more, also if the TTL is shorter.
func (l *lock) removal(granted bool, remains remains) []*script {
	switch {
	case l.d.router.conn.Cluster == nil:
		return []*script{releaseScript} // makes the tombstone itself
	case granted && remains != arriving:
		return []*script{releaseOneScript}
	}
	return []*script{tombstoneOneScript, releaseOneScript}
}
