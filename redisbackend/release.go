package redisbackend

import (
	"context"
	"time"

	"github.com/fencedlock/locker/driver"
)

// leftBehind is for how long a request that was given up may still be on its way out of this process: a message with others
// in it (maxLimit), and the time that go-redis gives itself to write it (3 s unless its options say otherwise).
var leftBehind = maxLimit + 3*time.Second

// Release sends nothing when the server has said that nothing is there, or time has ended all that may have been.
func (l *lock) Release(ctx context.Context) error {
	l.mu.Lock()
	asked, granted, late := l.asked && !l.outlived(), l.token != 0, l.late
	l.queued = false
	l.mu.Unlock()
	if asked {
		for _, s := range l.removal(granted, late) {
			r := l.request(s, driver.Stamp())
			r.late = late
			if a := l.d.server.ask(ctx, r); a.err != nil {
				return a.err
			}
		}
	}
	if l.ready != nil {
		l.d.grants.forget(l)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked, l.late = false, false
	return nil
}

// outlived reports whether whatever l may have left has ended by itself: a service that doesn't answer for hours must not
// make a Locker keep all that it has tried meanwhile. What the last request has set or renewed ends a TTL after it was
// executed, and it was executed within another TTL. One that was held up for even longer, and is executed then, makes
// what ends by itself as well; and the removals that were sent since come behind it. l.mu is held.
func (l *lock) outlived() bool {
	return driver.Now().Sub(l.ended) > 2*l.ttl+leftBehind
}

// removal lists the scripts that remove what an acquisition has left. A tombstone is needed where a request may still
// arrive that acquires: none was answered with a grant, or another copy of one that was is under way. It comes before the
// removal, so that nothing can arrive in between.
func (l *lock) removal(granted, late bool) []*script {
	switch {
	case l.d.server.cluster == nil:
		return []*script{releaseScript}
	case granted && !late:
		return []*script{releaseOneScript}
	}
	return []*script{buryOneScript, releaseOneScript}
}
