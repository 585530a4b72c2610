package reference

import (
	"slices"

	"github.com/fencedlock/locker/driver"
)

const whoIsNext = "who is next"

var orderMutations = []Mutation{
	{Name: "lifo-beyond-32", Kind: whoIsNext,
		Why: "a queue in memory of 32 places and a stack for the rest; long queues are served from the wrong end",
		change: func(st *steps) {
			st.enqueue = func(s *Service, r *record, e *entry) {
				if len(r.queue) < 32 {
					s.enqueue(r, e)
					return
				}
				r.queue = slices.Insert(r.queue, 32, e)
			}
		}},
	{Name: "renewed-place-goes-to-the-end", Kind: whoIsNext,
		Why: "a place is a score in a sorted set, and a renewal writes a new score: who waits longest is served last",
		change: func(st *steps) {
			st.renewOne = func(s *Service, q request, c claim, now driver.Instant) answer {
				a := s.renew(q, c, now)
				if r := s.data.locks[c.key]; a.state == queued {
					w := s.find(r, renew, c, q)
					r.queue = append(slices.DeleteFunc(r.queue, func(o *entry) bool { return o == w }), w)
				}
				return a
			}
		}},
	{Name: "own-session-first", Kind: whoIsNext,
		Why: "a lock goes to a thread of the same process first, which is cheap; other processes may wait for ever",
		change: func(st *steps) {
			st.releaseOne = func(s *Service, q request, c claim, now driver.Instant) answer {
				if r := s.data.locks[c.key]; r != nil && r.holder != nil && r.holder.owner == c.owner {
					slices.SortStableFunc(r.queue, func(a, b *entry) int {
						switch own := q.session; {
						case a.session == own && b.session != own:
							return -1
						case a.session != own && b.session == own:
							return 1
						}
						return 0
					})
				}
				return s.release(q, c, now)
			}
		}},
	{Name: "two-dead-waiters-stop-the-queue", Kind: whoIsNext,
		Why: "one dead waiter is passed over, and the code for that isn't a loop: behind two dead ones everybody waits",
		change: func(st *steps) {
			st.advance = func(s *Service, r *record, now driver.Instant) {
				if r.holder != nil && now >= r.holder.expires {
					s.steps.revoke(s, r, errExpired, now)
				}
				for range 2 {
					if r.holder == nil && len(r.queue) > 0 {
						s.steps.promote(s, r, now)
					}
				}
			}
		}},
	{Name: "dead-waiter-gets-a-full-ttl", Kind: whoIsNext,
		Why: "the TTL begins with the grant, though the waiter was last heard of long before; a dead one keeps others out for longer",
		change: func(st *steps) {
			st.promote = func(s *Service, r *record, now driver.Instant) {
				w := r.queue[0]
				s.promote(r, now)
				if r.holder == w {
					w.expires = now.Add(w.ttl)
				}
			}
		}},
	{Name: "places-never-expire", Kind: whoIsNext,
		Why: "a list without expiry; each dead waiter is given the lock for a TTL, one after the other",
		change: func(st *steps) {
			st.promote = func(s *Service, r *record, now driver.Instant) {
				r.queue[0].expires = max(r.queue[0].expires, now.Add(r.queue[0].ttl))
				s.promote(r, now)
			}
		}},
	{Name: "removal-wakes-nobody", Kind: whoIsNext,
		Why: "an operator deletes the key, and only a release looks at the queue; waiters go on waiting for a free lock",
		change: func(st *steps) {
			st.remove = func(s *Service, r *record, now driver.Instant) { s.steps.revoke(s, r, errRevoked, now) }
		}},
	{Name: "removal-deletes-the-queue", Kind: whoIsNext,
		Why: "an operator deletes the record with the queue in it; waiters learn of it by a renewal, much later",
		change: func(st *steps) {
			st.remove = func(s *Service, r *record, now driver.Instant) {
				r.queue = nil
				s.remove(r, now)
			}
		}},
}
