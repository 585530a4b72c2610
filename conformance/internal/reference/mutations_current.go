package reference

import (
	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// currentMutations say the wrong thing to a caller that reads the current token.
var currentMutations = []Mutation{
	{Name: "current-of-the-expired", Kind: whatIsSaid,
		Why: "the read doesn't look at the expiry; a fence that asks takes a dead holder's token for good",
		change: func(st *steps) {
			st.current = func(s *Service, key string, _ driver.Instant) answer {
				if r := s.data.locks[key]; r != nil && r.holder != nil {
					return answer{token: r.holder.token}
				}
				return answer{}
			}
		}},
	{Name: "current-of-the-removed", Kind: whatIsSaid,
		Why: "an operator's removal doesn't reach the table from which the token is read; a fence takes the former holder for good",
		change: func(st *steps) {
			removed := make(map[string]locker.Token)
			st.remove = func(s *Service, r *record, now driver.Instant) {
				removed[r.key] = r.holder.token
				s.remove(r, now)
			}
			st.current = func(s *Service, key string, now driver.Instant) answer {
				if a := s.current(key, now); a.token != 0 {
					return a
				}
				return answer{token: removed[key]}
			}
		}},
	{Name: "current-from-a-cache", Kind: whatIsSaid,
		Why: "answers are cached by the client for a second; a fence that asks takes a former holder for good",
		change: func(st *steps) {
			type known struct {
				key   string
				at    driver.Instant
				reply reply
			}
			cache := newPerClient[known]()
			st.call = currentCache(func(c *client, key string, ask func() (reply, error)) (reply, error) {
				if k := cache.get(c); k.key == key && driver.Stamp().Sub(k.at) < 1e9 {
					return k.reply, nil
				}
				r, err := ask()
				if err == nil {
					cache.update(c, func(known) known { return known{key, driver.Stamp(), r} })
				}
				return r, err
			})
		}},
}
