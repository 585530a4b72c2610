package reference

import (
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

const whatLasts = "what lasts"

var lastsMutations = []Mutation{
	{Name: "counter-lost-by-a-restart", Kind: whatLasts,
		Why: "the counter is in memory, and only locks are written; after a restart a stale token is larger than a new one",
		change: func(st *steps) {
			st.restart = func(s *Service) {
				s.restart()
				s.data.last = 0
			}
		}},
	{Name: "counter-written-now-and-then", Kind: whatLasts,
		Why: "the counter is written every 32 tokens, and a restart goes on from there: the last tokens are given again",
		change: func(st *steps) {
			st.restart = func(s *Service) {
				s.restart()
				s.data.last -= s.data.last % 32
			}
		}},
	{Name: "counter-expires", Kind: whatLasts,
		Why: "the counter is a key with a TTL of ten minutes; a name that was idle for longer begins again at 1",
		change: func(st *steps) {
			type counter struct {
				last locker.Token
				used time.Time
			}
			counters := make(map[string]counter)
			st.mint = func(_ *Service, _ *conn, r *record) locker.Token {
				c, now := counters[r.key], time.Now()
				if now.Sub(c.used) > 10*time.Minute {
					c.last = 0
				}
				counters[r.key] = counter{c.last + 1, now}
				return c.last + 1
			}
		}},
	{Name: "counter-deleted-with-the-lock", Kind: whatLasts,
		Why: "the counter is a field of the lock's row; a release deletes both",
		change: func(st *steps) {
			counters := make(map[*record]locker.Token)
			st.mint = func(_ *Service, _ *conn, r *record) locker.Token {
				counters[r]++
				return counters[r]
			}
		}},
	{Name: "counter-in-ranges", Kind: whatLasts,
		Why: "a sequence with a cache: each client has a range of tokens of its own, and a later holder may have a smaller one",
		change: func(st *steps) {
			next, end := make(map[string]locker.Token), make(map[string]locker.Token)
			st.mint = func(s *Service, _ *conn, r *record) locker.Token {
				session := ""
				if r.holder != nil {
					session = r.holder.session
				}
				if next[session] == end[session] {
					next[session], end[session] = s.data.last, s.data.last+50
					s.data.last += 50
				}
				next[session]++
				return next[session]
			}
		}},
	{Name: "token-is-the-clients-clock", Kind: whatLasts, Dialect: Dialect{ClockTokens: true},
		Why: "no counter is shared; a client whose clock is behind has a smaller token than the holder before it",
		change: func(st *steps) {
			st.mint = func(s *Service, from *conn, r *record) locker.Token {
				if from == nil {
					return s.mint(from, r)
				}
				s.data.last++ // so that no two are the same
				return locker.Token(time.Now().Add(from.client.ahead).UnixMicro()) + s.data.last
			}
		}},
	{Name: "token-is-a-clock-of-ms", Kind: whatLasts, Dialect: Dialect{ClockTokens: true},
		Why: "the clock is the token; two holders within a millisecond have the same",
		change: func(st *steps) {
			st.mint = func(*Service, *conn, *record) locker.Token { return locker.Token(time.Now().UnixMilli()) }
		}},
	{Name: "tokens-begin-again-when-data-is-lost", Kind: whatLasts, Dialect: Dialect{ClockTokens: true},
		Why: "the clock is declared, and a counter is used; after the loss of all data stale tokens are larger",
		change: func(st *steps) {
			st.mint = func(s *Service, _ *conn, _ *record) locker.Token {
				s.data.last++
				return s.data.last
			}
		}},
	{Name: "no-tombstones", Kind: whatLasts,
		Why: "nothing stops a late acquire; it gets the lock for a caller that has gone",
		change: func(st *steps) {
			st.bury = func(*Service, claim, driver.Instant) {}
		}},
	{Name: "tombstones-for-a-second", Kind: whatLasts,
		Why: "a tombstone lives for less time than a message may be on its way; a late acquire gets the lock for nobody",
		change: func(st *steps) {
			st.bury = func(s *Service, c claim, now driver.Instant) { s.data.tombstones.add(c.owner, now, time.Second) }
		}},
	{Name: "tombstones-lost-by-a-restart", Kind: whatLasts,
		Why: "tombstones are in memory; an acquire that is older than the restart gets the lock for nobody",
		change: func(st *steps) {
			st.restart = func(s *Service) {
				s.restart()
				s.data.tombstones = tombstones{}
			}
		}},
	{Name: "restart-revives-released-locks", Kind: whatLasts,
		Why: "the data is written every second; what was released just before a restart is held again, by nobody",
		change: func(st *steps) {
			type released struct {
				e  *entry
				at driver.Instant
			}
			recent := make(map[string]released)
			st.releaseOne = func(s *Service, q request, c claim, now driver.Instant) answer {
				if r := s.data.locks[c.key]; r != nil && r.holder != nil && r.holder.owner == c.owner {
					recent[c.key] = released{r.holder, now}
				}
				return s.release(q, c, now)
			}
			st.restart = func(s *Service) {
				now := driver.Now()
				for key, old := range recent {
					if r := s.open(key); r.holder == nil && now.Sub(old.at) < time.Second {
						r.holder = old.e
					}
				}
				s.restart()
			}
		}},
	{Name: "restart-forgets-new-locks", Kind: whatLasts,
		Why: "the data is written every second, against what is declared; what was acquired just before a restart is free",
		change: func(st *steps) {
			acquired := make(map[*entry]driver.Instant)
			st.grant = func(s *Service, from *conn, r *record, e *entry, now driver.Instant) {
				acquired[e] = now
				s.grant(from, r, e, now)
			}
			st.restart = func(s *Service) {
				now := driver.Now()
				for _, r := range s.data.locks {
					if r.holder != nil && now.Sub(acquired[r.holder]) < time.Second {
						r.holder = nil
					}
				}
				s.restart()
			}
		}},
	{Name: "restart-forgets-renewals", Kind: whatLasts,
		Why: "renewals aren't written; after a restart a lock that is older than its TTL is free, and its holder believes",
		change: func(st *steps) {
			first := make(map[*entry]driver.Instant)
			st.grant = func(s *Service, from *conn, r *record, e *entry, now driver.Instant) {
				first[e] = e.expires
				s.grant(from, r, e, now)
			}
			st.restart = func(s *Service) {
				for _, r := range s.data.locks {
					if r.holder != nil {
						r.holder.expires = first[r.holder]
					}
				}
				s.restart()
			}
		}},
	{Name: "acquire-isnt-idempotent", Kind: whatLasts,
		Why: "a request that arrives twice takes a place behind itself; when its lock is released, nobody has it for a TTL",
		change: func(st *steps) {
			st.owns = func(v verb, e *entry, c claim, q request) bool { return v != acquire && owns(v, e, c, q) }
		}},
}
