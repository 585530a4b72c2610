package reference

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/fencedlock/locker/driver"
)

const whatAConnectionMeans = "what a connection means"

var connMutations = []Mutation{
	{Name: "reconnect-forgets-one-wait", Kind: whatAConnectionMeans,
		Why: "a client subscribes again for a list that misses the last entry; that waiter isn't woken when its turn comes",
		change: func(st *steps) {
			// Notices about an owner go to the connection on which it was named last.
			named := make(map[string]*conn)
			st.serve = func(s *Service, from *conn, q request, now driver.Instant) reply {
				for _, c := range q.claims {
					named[c.owner] = from
				}
				return s.execute(from, q, now)
			}
			st.notify = func(s *Service, session string, n notice) {
				if s.sessions[session] == named[n.owner] {
					s.notify(session, n)
				}
			}
			st.known = func(c *client) []*lock {
				known := c.known()
				if len(known) < 2 {
					return known
				}
				slices.SortFunc(known, func(a, b *lock) int { return cmp.Compare(a.claim.key, b.claim.key) })
				return known[:len(known)-1]
			}
		}},
	{Name: "reconnect-doesnt-subscribe", Kind: whatAConnectionMeans,
		Why: "notices go to the first connection of a client only; after a break all waiters wait for their renewals",
		change: func(st *steps) {
			first := make(map[string]bool)
			st.subscribe = func(s *Service, on *conn, session string) {
				if !first[session] || s.sessions[session] == on {
					first[session] = true
					s.subscribe(on, session)
				}
			}
		}},
	{Name: "leaver-closes-the-shared-channel", Kind: whatAConnectionMeans,
		Why: "all waits of a client share a subscription, and the first that gives up ends it; the others aren't woken",
		change: func(st *steps) {
			st.forget = func(c *client, l *lock) {
				if l.current() == waiting {
					maps.DeleteFunc(c.locks, func(_ string, other *lock) bool { return other.current() == waiting })
				}
				c.remove(l)
			}
		}},
	{Name: "connections-end-frees-locks", Kind: whatAConnectionMeans,
		Why: "locks are attached to the connection, against what is declared; a break gives them away while their holder believes",
		change: func(st *steps) {
			st.hangUp = func(s *Service, c *conn) {
				s.hangUp(c)
				s.freeSession(c.client.session)
			}
		}},
	{Name: "old-connections-end-frees-new-locks", Kind: whatAConnectionMeans,
		Why: "the service notices the end of a broken connection late, and then cleans up after a client that is back",
		change: func(st *steps) {
			st.hangUp = func(s *Service, c *conn) {
				s.hangUp(c)
				time.AfterFunc(300*time.Millisecond, func() {
					s.locked(func() { s.freeSession(c.client.session) })
				})
			}
		}},
	{Name: "keepalive-on-another-connection", Kind: whatAConnectionMeans,
		Why: "a renewal keeps alive what was acquired on its own connection; after a break older leases expire, acknowledged",
		change: func(st *steps) {
			home := make(map[string]*conn)
			st.acquire = func(s *Service, from *conn, q request, c claim, now driver.Instant) answer {
				home[c.owner] = from
				return s.acquire(from, q, c, now)
			}
			st.renewOne = func(s *Service, q request, c claim, now driver.Instant) answer {
				r := s.data.locks[c.key]
				if r == nil || home[c.owner] == s.sessions[q.session] {
					return s.renew(q, c, now)
				}
				defer s.settle(r, now)
				s.steps.advance(s, r, now)
				switch e := s.find(r, renew, c, q); {
				case e == nil:
					return answer{state: gone}
				case e.token > 0:
					return answer{granted, e.token}
				}
				return answer{state: queued}
			}
		}},
	{Name: "reconnect-acquires-again", Kind: whatAConnectionMeans,
		Why: "a client restores its locks after a break by acquiring them; a lock that was taken away comes back, without its holder's knowledge",
		change: func(st *steps) {
			st.revoke = func(s *Service, r *record, cause error, _ driver.Instant) {
				e := r.holder
				r.holder = nil
				s.steps.notify(s, e.session, notice{key: r.key, owner: e.owner, cause: cause})
			}
			st.known = func(c *client) []*lock {
				for _, l := range c.known() {
					q := request{verb: acquire, claims: []claim{l.claim}, noWait: true, sent: driver.Stamp()}
					if _, err := c.call(c.stop, timeLimit(l.claim.ttl), q); err != nil {
						break
					}
				}
				return nil
			}
		}},
	{Name: "reconnect-ends-all-leases", Kind: whatAConnectionMeans,
		Why: "a break is taken for the end of the session; each blip of the network ends all leases of the process",
		change: func(st *steps) {
			st.known = func(c *client) []*lock {
				for _, l := range c.known() {
					l.lost(errReset)
				}
				return nil
			}
		}},
	{Name: "release-not-repeated-after-a-reset", Kind: whatAConnectionMeans,
		Why: "a release whose connection broke is taken for done, because the session's end would do it; the lock is held for a TTL",
		change: func(st *steps) {
			st.release = func(l *lock, ctx context.Context) error {
				_, err := l.client.ask(ctx, timeLimit(l.claim.ttl), request{verb: release, claims: []claim{l.claim}})
				if errors.Is(err, errReset) {
					return nil
				}
				return err
			}
		}},
	{Name: "replies-matched-by-order", Kind: whatAConnectionMeans,
		Why: "a pipeline without numbers; a reply that comes after its caller has gone is taken for the next request's",
		change: func(st *steps) {
			st.match = func(c *client, number int) *call {
				if len(c.calls) == 0 {
					return nil
				}
				return c.calls[slices.Min(slices.Collect(maps.Keys(c.calls)))]
			}
			st.call = func(c *client, ctx context.Context, limit time.Duration, q request) (reply, error) {
				r, err := c.call(ctx, limit, q)
				for err == nil && len(r.answers) < len(q.claims) {
					r.answers = append(r.answers, answer{})
				}
				return r, err
			}
		}},
	{Name: "grant-to-a-dead-connection-counts", Kind: whatAConnectionMeans,
		Why: "a notice that can't be sent isn't kept, and the renewal says queued until it has expired: the waiter never learns of its grant",
		change: func(st *steps) {
			untold := make(map[string]bool)
			st.notify = func(s *Service, session string, n notice) {
				untold[n.owner] = s.sessions[session] == nil
				s.notify(session, n)
			}
			st.renewOne = func(s *Service, q request, c claim, now driver.Instant) answer {
				r := s.data.locks[c.key]
				if r == nil || r.holder == nil || r.holder.owner != c.owner || !untold[c.owner] {
					return s.renew(q, c, now)
				}
				return answer{state: queued}
			}
		}},
}

// freeSession ends all locks of a session, and tells nobody.
func (s *Service) freeSession(session string) {
	now := driver.Now()
	for _, r := range s.data.locks {
		if r.holder != nil && r.holder.session == session {
			r.holder = nil
			s.sweep(r, now)
		}
	}
}

// currentCache puts something before the requests for the current token.
func currentCache(
	read func(c *client, key string, ask func() (reply, error)) (reply, error),
) func(*client, context.Context, time.Duration, request) (reply, error) {
	return func(c *client, ctx context.Context, limit time.Duration, q request) (reply, error) {
		ask := func() (reply, error) { return c.call(ctx, limit, q) }
		if q.verb != current {
			return ask()
		}
		return read(c, q.claims[0].key, ask)
	}
}
