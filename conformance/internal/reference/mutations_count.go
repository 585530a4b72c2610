package reference

import (
	"context"
	"errors"
	"slices"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

const howMany = "how many"

type reporter = func(i int, base driver.Instant, err error)

var countMutations = []Mutation{
	{Name: "batch-cut-at-64", Kind: howMany,
		Why: "the service takes 64 keys in a request and ignores the rest; those leases are reported good and expire",
		change: func(st *steps) {
			st.renew = func(c *client, ctx context.Context, locks []*lock, report reporter) error {
				sent := driver.Stamp()
				n := min(len(locks), 64)
				err := c.renew(ctx, locks[:n], report)
				for i := range locks[n:] {
					report(n+i, sent, err)
				}
				return err
			}
		}},
	{Name: "batch-groups-skip-one", Kind: howMany,
		Why: "renewals go in groups of 100, and an index is wrong by one at each border; that lease expires",
		change: func(st *steps) {
			st.renew = func(c *client, ctx context.Context, locks []*lock, report reporter) (err error) {
				const size = 100
				for from := 0; from < len(locks); from += size {
					group := locks[from:min(from+size, len(locks))]
					skip := min(from, 1) // the border belongs to no group
					if skip == 1 {
						report(from, driver.Stamp(), nil)
					}
					err = errors.Join(err, c.renew(ctx, group[skip:], func(i int, base driver.Instant, err error) {
						report(from+skip+i, base, err)
					}))
				}
				return err
			}
		}},
	{Name: "batch-above-128-fails", Kind: howMany,
		Why: "a limit on the arguments of a request; as soon as a Locker has one lease too many, all are lost",
		change: func(st *steps) {
			st.renew = func(c *client, ctx context.Context, locks []*lock, report reporter) error {
				if len(locks) <= 128 {
					return c.renew(ctx, locks, report)
				}
				err := errors.New("too many keys in a request")
				for i := range locks {
					report(i, 0, err)
				}
				return err
			}
		}},
	{Name: "one-lost-all-lost", Kind: howMany, Dialect: Dialect{SilentRevocation: true},
		Why: "a batch is a transaction that fails as a whole; one removed lock ends all leases of the Locker",
		change: func(st *steps) {
			st.serve = func(s *Service, from *conn, q request, now driver.Instant) reply {
				r := s.execute(from, q, now)
				if q.verb == renew && slices.ContainsFunc(r.answers, func(a answer) bool { return a.state == gone }) {
					clear(r.answers)
				}
				return r
			}
		}},
	{Name: "one-good-all-good", Kind: howMany, Dialect: Dialect{SilentRevocation: true},
		Why: "the reply is the number of keys that were renewed, and any number above 0 is taken for all",
		change: func(st *steps) {
			st.serve = func(s *Service, from *conn, q request, now driver.Instant) reply {
				r := s.execute(from, q, now)
				good := slices.IndexFunc(r.answers, func(a answer) bool { return a.state == granted })
				for i := range r.answers {
					if q.verb == renew && good >= 0 && r.answers[i].state == gone {
						r.answers[i] = r.answers[good]
					}
				}
				return r
			}
		}},
	{Name: "answers-closed-up", Kind: howMany, Dialect: Dialect{SilentRevocation: true},
		Why: "rows that are missing aren't in the answer, and answers are matched by position: the wrong lease is lost",
		change: func(st *steps) {
			st.serve = func(s *Service, from *conn, q request, now driver.Instant) reply {
				r := s.execute(from, q, now)
				if q.verb == renew {
					n := len(r.answers)
					r.answers = slices.DeleteFunc(r.answers, func(a answer) bool { return a.state == gone })
					r.answers = append(r.answers, make([]answer, n-len(r.answers))...)
				}
				return r
			}
		}},
	{Name: "queue-holds-100", Kind: howMany,
		Why: "a bounded queue drops what comes beyond, and the service says queued; a waiter isn't woken when its turn comes",
		change: func(st *steps) {
			st.enqueue = func(s *Service, r *record, e *entry) {
				if len(r.queue) < 100 {
					s.enqueue(r, e)
				}
			}
		}},
	{Name: "every-100th-waiter-dropped", Kind: howMany,
		Why: "a queue in segments loses the entry at each border; that waiter isn't woken when its turn comes",
		change: func(st *steps) {
			n := 0
			st.enqueue = func(s *Service, r *record, e *entry) {
				if n++; n%100 != 0 {
					s.enqueue(r, e)
				}
			}
		}},
	{Name: "locks-evicted-beyond-200", Kind: howMany,
		Why: "a cache with a bound evicts the oldest key; its holder believes for up to a third of the TTL, and another has the lock",
		change: func(st *steps) {
			type held struct {
				r *record
				e *entry
			}
			var oldest []held
			st.grant = func(s *Service, from *conn, r *record, e *entry, now driver.Instant) {
				s.grant(from, r, e, now)
				oldest = slices.DeleteFunc(oldest, func(h held) bool { return h.r.holder != h.e })
				if oldest = append(oldest, held{r, e}); len(oldest) > 200 {
					oldest[0].r.holder = nil
				}
			}
		}},
	{Name: "hundredth-request-of-a-connection-lost", Kind: howMany,
		Why: "a proxy ends a connection after a number of requests, and the client takes that for a refusal of the lock",
		change: func(st *steps) {
			requests := newPerClient[int]()
			st.ask = func(l *lock, ctx context.Context) (driver.Grant, error) {
				if requests.update(l.client, func(n int) int { return n + 1 })%100 == 0 && l.noWait {
					return driver.Grant{}, locker.ErrHeld
				}
				return l.ask(ctx)
			}
		}},
}
