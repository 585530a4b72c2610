package reference

import (
	"slices"
	"time"

	"github.com/fencedlock/locker/driver"
)

// Expiry is noticed in two ways. A request sees what has expired of the key that it is about,
// whatever any timer does; exclusion rests on that. While somebody waits, a timer hands the lock
// over when nobody asks.

// expiry is when the service takes a lock or place for dead that it has just heard of.
func expiry(_ *Service, _ verb, _ *record, _ *entry, ttl time.Duration, now driver.Instant) driver.Instant {
	return now.Add(ttl)
}

// advance is the beginning of every operation on a key: a lock whose TTL has passed is taken from
// its holder, and a free lock is given to the first live waiter. So nobody can overtake the queue.
func (s *Service) advance(r *record, now driver.Instant) {
	if r.holder != nil && now >= r.holder.expires {
		s.steps.revoke(s, r, errExpired, now)
	}
	for r.holder == nil && len(r.queue) > 0 {
		s.steps.promote(s, r, now)
	}
}

// promote gives a free lock to the first waiter, or removes that waiter if it is dead. The lease
// ends a TTL after the last refresh of the place.
func (s *Service) promote(r *record, now driver.Instant) {
	w := r.queue[0]
	r.queue = slices.Delete(r.queue, 0, 1)
	if now >= w.expires {
		s.steps.bury(s, claim{key: r.key, owner: w.owner, ttl: w.ttl}, now)
		return
	}
	s.steps.grant(s, s.sessions[w.session], r, w, now)
	s.steps.notify(s, w.session, notice{key: r.key, owner: w.owner, token: w.token, sent: w.sent})
}

// revoke takes the lock from its holder, and notifies the holder.
func (s *Service) revoke(r *record, cause error, now driver.Instant) {
	e := r.holder
	r.holder = nil
	s.steps.bury(s, claim{key: r.key, owner: e.owner, ttl: e.ttl}, now)
	if !s.dialect.SilentRevocation {
		s.steps.notify(s, e.session, notice{key: r.key, owner: e.owner, cause: cause})
	}
}

// watch sets the timer of a key. Renewals only make the moment later, and don't touch the timer:
// when it fires too early, it is set again.
func (s *Service) watch(r *record, now driver.Instant) {
	if r.holder == nil || len(r.queue) == 0 {
		return
	}
	at := r.holder.expires
	switch {
	case r.timer == nil:
		r.timer = time.AfterFunc(at.Sub(now), func() { s.fire(r) })
	case r.wake == driver.Never || at < r.wake:
		r.timer.Reset(at.Sub(now))
	default:
		return
	}
	r.wake = at
}

func (s *Service) fire(r *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.wake = driver.Never
	if s.paused || s.data.locks[r.key] != r {
		return // Resume looks at everything
	}
	s.sweep(r, driver.Now())
}

func (s *Service) sweep(r *record, now driver.Instant) {
	s.steps.advance(s, r, now)
	s.settle(r, now)
}
