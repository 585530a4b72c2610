package reference

import (
	"context"
	"errors"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

const whenItCounts = "when it counts"

var whenMutations = []Mutation{
	{Name: "base-from-reply", Kind: whenItCounts,
		Why: "the commonest mistake of all clients: the deadline counts from the reply, and the service's TTL from the request",
		change: func(st *steps) {
			st.hold = func(l *lock, token locker.Token, _ driver.Instant) driver.Grant { return l.hold(token, driver.Stamp()) }
			st.renewed = func(l *lock, a answer, _ driver.Instant) (driver.Instant, error) { return l.renewed(a, driver.Stamp()) }
		}},
	{Name: "base-from-notice", Kind: whenItCounts,
		Why: "a pushed grant is counted from its arrival, and the service counts from the waiter's last refresh: two holders",
		change: func(st *steps) {
			st.noticed = func(*lock, notice) driver.Instant { return driver.Stamp() }
		}},
	{Name: "base-of-another-request", Kind: whenItCounts,
		Why: "a client that takes any answer on the connection for a sign of life of all its locks: a renewal that failed counts",
		change: func(st *steps) {
			answered := newPerClient[driver.Instant]()
			st.call = func(c *client, ctx context.Context, limit time.Duration, q request) (reply, error) {
				sent := driver.Stamp()
				r, err := c.call(ctx, limit, q)
				if err == nil {
					answered.update(c, func(driver.Instant) driver.Instant { return sent })
				}
				return r, err
			}
			st.renew = func(c *client, ctx context.Context, locks []*lock, report func(int, driver.Instant, error)) error {
				return c.renew(ctx, locks, func(i int, base driver.Instant, err error) {
					if other := answered.get(c); errors.Is(err, locker.ErrNoAnswer) && driver.Stamp().Sub(other) < locks[i].claim.ttl {
						base, err = other, nil
					}
					report(i, base, err)
				})
			}
		}},
	{Name: "repeated-acquire-counts-again", Kind: whenItCounts,
		Why: "an acquire without an answer is sent again; the service says yes without a new TTL, and the client counts from the second",
		change: func(st *steps) {
			st.acquire = func(s *Service, from *conn, q request, c claim, now driver.Instant) answer {
				if r := s.data.locks[c.key]; r != nil && r.holder != nil && r.holder.owner == c.owner && now < r.holder.expires {
					return answer{granted, r.holder.token}
				}
				return s.acquire(from, q, c, now)
			}
			st.ask = func(l *lock, ctx context.Context) (driver.Grant, error) {
				g, err := l.ask(ctx)
				if errors.Is(err, locker.ErrNoAnswer) && ctx.Err() == nil {
					return l.ask(ctx)
				}
				return g, err
			}
		}},
	{Name: "ttl-in-whole-seconds", Kind: whenItCounts,
		Why:    "EXPIRE counts seconds; the driver converts and cuts 1.9 s to 1 s: two holders",
		change: lasting(func(ttl time.Duration) time.Duration { return max(ttl.Truncate(time.Second), time.Second) })},
	{Name: "ttl-capped", Kind: whenItCounts,
		Why:    "the server has a longest session of 15 s and says nothing; the driver reports what was asked: two holders",
		change: lasting(func(ttl time.Duration) time.Duration { return min(ttl, 15*time.Second) })},
	{Name: "ttl-rounded-up-in-the-driver", Kind: whenItCounts,
		Why: "the lease shows whole seconds, as another version of the service had them, and the service counts milliseconds",
		change: func(st *steps) {
			st.shown = func(l *lock) time.Duration { return (l.claim.ttl + time.Second - 1).Truncate(time.Second) }
		}},
	{Name: "ttl-1000-times", Kind: whenItCounts,
		Why:    "milliseconds are given where seconds are counted; the lock of a dead holder is held for 1000 TTLs",
		change: lasting(func(ttl time.Duration) time.Duration { return 1000 * ttl })},
	{Name: "ttl-spread", Kind: whenItCounts,
		Why:    "a cache shortens TTLs by a few percent, so that not all expire at once: more than the allowance for clocks",
		change: lasting(func(ttl time.Duration) time.Duration { return ttl - ttl/20 })},
	{Name: "ttl-in-31-bits-of-ms", Kind: whenItCounts,
		Why: "an int of 32 bits; a TTL of 25 days or more overflows, and the lock is free at once",
		change: lasting(func(ttl time.Duration) time.Duration {
			return time.Duration(int32(ttl.Milliseconds())) * time.Millisecond
		})},
	{Name: "ttl-in-32-bits-of-us", Kind: whenItCounts,
		Why: "a field of 32 bits with microseconds; a TTL of 72 minutes or more wraps around",
		change: lasting(func(ttl time.Duration) time.Duration {
			return time.Duration(uint32(ttl.Microseconds())) * time.Microsecond
		})},
	{Name: "ttl-in-16-bits-of-ms", Kind: whenItCounts,
		Why: "a field of 16 bits with milliseconds; a TTL of 66 s or more wraps around",
		change: lasting(func(ttl time.Duration) time.Duration {
			return time.Duration(uint16(ttl.Milliseconds())) * time.Millisecond
		})},
	{Name: "life-capped", Kind: whenItCounts,
		Why: "renewals are acknowledged, but nothing lives longer than 15 s, such as a token of an identity service",
		change: func(st *steps) {
			born := make(map[*entry]driver.Instant)
			st.grant = func(s *Service, from *conn, r *record, e *entry, now driver.Instant) {
				born[e] = now
				s.grant(from, r, e, now)
			}
			st.expiry = func(s *Service, v verb, r *record, e *entry, ttl time.Duration, now driver.Instant) driver.Instant {
				at := expiry(s, v, r, e, ttl, now)
				if birth, ok := born[e]; ok && v == renew {
					at = min(at, birth.Add(max(15*time.Second, e.ttl)))
				}
				return at
			}
		}},
	{Name: "refusal-sets-the-ttl", Kind: whenItCounts,
		Why: "SETNX and then PEXPIRE whatever it said; an attempt that is refused gives the holder's lock its own TTL",
		change: func(st *steps) {
			st.acquire = func(s *Service, from *conn, q request, c claim, now driver.Instant) answer {
				a := s.acquire(from, q, c, now)
				if r := s.data.locks[c.key]; a.state != granted && r != nil && r.holder != nil {
					r.holder.expires = now.Add(c.ttl)
				}
				return a
			}
		}},
	{Name: "waiters-keep-the-holder", Kind: whenItCounts,
		Why: "renewing a place touches the key that is waited for; a dead holder never expires while somebody waits",
		change: func(st *steps) {
			st.renewOne = func(s *Service, q request, c claim, now driver.Instant) answer {
				a := s.renew(q, c, now)
				if r := s.data.locks[c.key]; a.state == queued && r.holder != nil {
					r.holder.expires = max(r.holder.expires, now.Add(r.holder.ttl))
				}
				return a
			}
		}},
	{Name: "renewal-adds-a-ttl", Kind: whenItCounts,
		Why: "an extension by a TTL instead of to a TTL; each renewal of a holder that then dies keeps others out for longer",
		change: func(st *steps) {
			st.expiry = func(s *Service, v verb, r *record, e *entry, ttl time.Duration, now driver.Instant) driver.Instant {
				if v == renew && e.token > 0 {
					return e.expires.Add(ttl)
				}
				return expiry(s, v, r, e, ttl, now)
			}
		}},
	{Name: "renewal-by-the-default-ttl", Kind: whenItCounts,
		Why: "the TTL of the lease isn't kept; a renewal shortens a longer one to the default: two holders without any fault",
		change: func(st *steps) {
			st.renewOne = func(s *Service, q request, c claim, now driver.Instant) answer {
				c.ttl = defaultTTL
				return s.renew(q, c, now)
			}
		}},
	{Name: "renewal-skipped-while-fresh", Kind: whenItCounts,
		Why: "a write is saved while half of the TTL is left, and the renewal acknowledged: the holder's deadline is too late",
		change: func(st *steps) {
			st.expiry = func(s *Service, v verb, r *record, e *entry, ttl time.Duration, now driver.Instant) driver.Instant {
				if v == renew && e.expires.Sub(now) > ttl/2 {
					return e.expires
				}
				return expiry(s, v, r, e, ttl, now)
			}
		}},
	{Name: "hand-over-keeps-the-ttl", Kind: whenItCounts,
		Why: "SET with KEEPTTL; the next holder's lock has what was left of the former holder's TTL, and is soon free",
		change: func(st *steps) {
			left := make(map[string]driver.Instant)
			st.releaseOne = func(s *Service, q request, c claim, now driver.Instant) answer {
				if r := s.data.locks[c.key]; r != nil && r.holder != nil && r.holder.owner == c.owner {
					left[c.key] = r.holder.expires
				}
				defer delete(left, c.key)
				return s.release(q, c, now)
			}
			st.promote = func(s *Service, r *record, now driver.Instant) {
				s.promote(r, now)
				if at := left[r.key]; r.holder != nil && at > now {
					r.holder.expires = at
				}
			}
		}},
	{Name: "expiry-at-whole-seconds", Kind: whenItCounts,
		Why: "EXPIREAT with a Unix time; a lock lasts up to a second less than its holder believes",
		change: func(st *steps) {
			st.expiry = func(_ *Service, _ verb, _ *record, _ *entry, ttl time.Duration, now driver.Instant) driver.Instant {
				wall := time.Now()
				return now.Add(wall.Add(ttl).Truncate(time.Second).Sub(wall))
			}
		}},
	{Name: "expiry-by-the-clients-clock", Kind: whenItCounts,
		Why: "the client computes when its key expires; if its clock is behind, its lock is free at once",
		change: func(st *steps) {
			st.expiry = func(s *Service, v verb, r *record, e *entry, ttl time.Duration, now driver.Instant) driver.Instant {
				if c := s.sessions[e.session]; c != nil {
					ttl += c.client.ahead
				}
				return expiry(s, v, r, e, ttl, now)
			}
		}},
	{Name: "expiry-noticed-by-requests-only", Kind: whenItCounts,
		Why: "expired keys end when somebody touches them; waiters that are silent meanwhile wait for a renewal's third of their TTL",
		change: func(st *steps) {
			st.watch = func(*Service, *record, driver.Instant) {}
		}},
	{Name: "expiry-by-a-sweeper", Kind: whenItCounts,
		Why: "a sweeper looks every 5 s; a dead holder's lock is free later than the declared slack says",
		change: func(st *steps) {
			st.expiry = func(s *Service, v verb, r *record, e *entry, ttl time.Duration, now driver.Instant) driver.Instant {
				const period = driver.Instant(5 * time.Second)
				at := expiry(s, v, r, e, ttl, now)
				return at + (period-at%period)%period
			}
		}},
	{Name: "ttl-by-a-second-request", Kind: whenItCounts,
		Why: "SETNX and then EXPIRE; a client that dies between the two leaves a lock for ever",
		change: func(st *steps) {
			st.acquire = func(s *Service, from *conn, q request, c claim, now driver.Instant) answer {
				a := s.acquire(from, q, c, now)
				if a.state == granted {
					const forEver = 100 * 365 * 24 * time.Hour
					s.data.locks[c.key].holder.expires = now.Add(forEver)
				}
				return a
			}
			st.ask = func(l *lock, ctx context.Context) (driver.Grant, error) {
				first := l.current() == unsent
				g, err := l.ask(ctx)
				if err == nil && first {
					err = l.client.renew(ctx, []*lock{l}, func(int, driver.Instant, error) {})
				}
				return g, err
			}
		}},
}

// lasting changes the TTL that the service keeps.
func lasting(keeps func(time.Duration) time.Duration) func(*steps) {
	return func(st *steps) {
		st.expiry = func(s *Service, v verb, r *record, e *entry, ttl time.Duration, now driver.Instant) driver.Instant {
			return expiry(s, v, r, e, keeps(ttl), now)
		}
	}
}
