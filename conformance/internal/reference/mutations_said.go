package reference

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

const whatIsSaid = "what is said"

var saidMutations = []Mutation{
	{Name: "release-acknowledged-and-not-done", Kind: whatIsSaid,
		Why: "a release is queued with the waiters' commands and acknowledged; the lock is held until it expires",
		change: func(st *steps) {
			st.releaseOne = func(s *Service, q request, c claim, now driver.Instant) answer {
				if r := s.data.locks[c.key]; r != nil && r.holder != nil && r.holder.owner == c.owner && len(r.queue) > 0 {
					return answer{state: gone}
				}
				return s.release(q, c, now)
			}
		}},
	{Name: "release-not-done-beyond-60-waiters", Kind: whatIsSaid,
		Why: "a release that has many waiters to sort exceeds the script's time limit, and is acknowledged",
		change: func(st *steps) {
			st.releaseOne = func(s *Service, q request, c claim, now driver.Instant) answer {
				if r := s.data.locks[c.key]; r != nil && r.holder != nil && r.holder.owner == c.owner && len(r.queue) > 60 {
					return answer{state: gone}
				}
				return s.release(q, c, now)
			}
		}},
	{Name: "release-without-answer-is-nil", Kind: whatIsSaid,
		Why: "the error of a release is logged and dropped; the caller is told that the lock is free, and it is held",
		change: func(st *steps) {
			st.release = func(l *lock, ctx context.Context) error {
				if err := l.sendRelease(ctx); err != nil && !errors.Is(err, locker.ErrNoAnswer) {
					return err
				}
				return nil
			}
		}},
	{Name: "release-without-answer-is-partial", Kind: whatIsSaid,
		Why: "no answer is taken for what remains on a minority; the caller is told that the lock is free, and it is held",
		change: func(st *steps) {
			st.release = func(l *lock, ctx context.Context) error {
				if err := l.sendRelease(ctx); err != nil {
					return &driver.PartialReleaseError{Err: err}
				}
				return nil
			}
		}},
	{Name: "refused-release-is-nil", Kind: whatIsSaid,
		Why: "a service that is down is taken for one that has lost its locks; the lock is held when it is back",
		change: func(st *steps) {
			st.release = func(l *lock, ctx context.Context) error {
				if err := l.sendRelease(ctx); !errors.Is(err, errRefused) {
					return err
				}
				return nil
			}
		}},
	{Name: "renewal-of-nothing-is-good", Kind: whatIsSaid, Dialect: Dialect{SilentRevocation: true},
		Why: "an update of no rows is no error in SQL; a holder whose lock is gone believes in it for ever",
		change: func(st *steps) {
			st.renewed = func(l *lock, a answer, sent driver.Instant) (driver.Instant, error) {
				if a.state == gone && l.current() == holding {
					return sent, nil
				}
				return l.renewed(a, sent)
			}
		}},
	{Name: "renewal-of-nothing-is-good-behind-notices", Kind: whatIsSaid,
		Why: "the same, where notices tell of a removal: a holder that misses the notice never learns",
		change: func(st *steps) {
			st.renewed = func(l *lock, a answer, sent driver.Instant) (driver.Instant, error) {
				if a.state == gone && l.current() == holding {
					return sent, nil
				}
				return l.renewed(a, sent)
			}
		}},
	{Name: "renewal-without-answer-is-good", Kind: whatIsSaid,
		Why: "the client swallows time-outs; a holder that is cut off believes in its lease while another has it",
		change: func(st *steps) {
			st.renew = func(c *client, ctx context.Context, locks []*lock, report reporter) error {
				sent := driver.Stamp()
				return c.renew(ctx, locks, func(i int, base driver.Instant, err error) {
					if errors.Is(err, locker.ErrNoAnswer) {
						base, err = sent, nil
					}
					report(i, base, err)
				})
			}
		}},
	{Name: "refused-renewal-is-loss", Kind: whatIsSaid,
		Why: "a service that is restarted refuses for a moment, and all leases end, though it still has them",
		change: func(st *steps) {
			st.renew = func(c *client, ctx context.Context, locks []*lock, report reporter) error {
				return c.renew(ctx, locks, func(i int, base driver.Instant, err error) {
					if errors.Is(err, errRefused) {
						err = fmt.Errorf("%w: %w", locker.ErrLost, err)
					}
					report(i, base, err)
				})
			}
		}},
	{Name: "unanswered-renewal-is-loss", Kind: whatIsSaid,
		Why: "one renewal without an answer ends the lease, though there is time for two more",
		change: func(st *steps) {
			st.renew = func(c *client, ctx context.Context, locks []*lock, report reporter) error {
				return c.renew(ctx, locks, func(i int, base driver.Instant, err error) {
					if errors.Is(err, locker.ErrNoAnswer) {
						err = fmt.Errorf("%w: %w", locker.ErrLost, err)
					}
					report(i, base, err)
				})
			}
		}},
	{Name: "refusal-after-a-repetition-is-a-grant", Kind: whatIsSaid,
		Why: "the first try had no answer; the second finds the lock held, and the client takes itself for the holder",
		change: func(st *steps) {
			st.ask = func(l *lock, ctx context.Context) (driver.Grant, error) {
				g, err := l.ask(ctx)
				if !errors.Is(err, locker.ErrNoAnswer) || ctx.Err() != nil {
					return g, err
				}
				sent := driver.Stamp()
				if g, err = l.ask(ctx); !errors.Is(err, locker.ErrHeld) {
					return g, err
				}
				r, err := l.client.call(ctx, maxLimit, request{verb: current, claims: []claim{l.claim}})
				if err != nil || r.answers[0].token == 0 {
					return driver.Grant{}, locker.ErrNoAnswer
				}
				return l.hold(r.answers[0].token, sent), nil
			}
		}},
	{Name: "refusal-by-the-service-is-held", Kind: whatIsSaid,
		Why: "any error of an acquire is taken for a held lock; a job that nobody does looks as if somebody did it",
		change: func(st *steps) {
			st.ask = func(l *lock, ctx context.Context) (driver.Grant, error) {
				g, err := l.ask(ctx)
				if errors.Is(err, errRefused) {
					err = locker.ErrHeld
				}
				return g, err
			}
		}},
	{Name: "acquire-without-answer-leaves-the-lock", Kind: whatIsSaid,
		Why: "only what was granted is released; an acquire whose reply was lost keeps the name for a TTL, for nobody",
		change: func(st *steps) {
			st.ask = func(l *lock, ctx context.Context) (driver.Grant, error) {
				g, err := l.ask(ctx)
				if errors.Is(err, locker.ErrNoAnswer) {
					l.finish()
				}
				return g, err
			}
		}},
	{Name: "cancelled-acquire-leaves-the-lock", Kind: whatIsSaid,
		Why: "a caller that gives up while its request is on its way isn't cleaned up after; the name is kept for a TTL",
		change: func(st *steps) {
			st.ask = func(l *lock, ctx context.Context) (driver.Grant, error) {
				g, err := l.ask(ctx)
				if err != nil && ctx.Err() != nil && l.current() == asked {
					l.finish()
				}
				return g, err
			}
		}},
	{Name: "slow-grant-leaves-the-lock", Kind: whatIsSaid,
		Why: "a grant that took too long is reported as an error, and the lock isn't released; the name is kept for a TTL",
		change: func(st *steps) {
			st.ask = func(l *lock, ctx context.Context) (driver.Grant, error) {
				g, err := l.ask(ctx)
				if err == nil && driver.Now().Sub(g.Base) > l.claim.ttl/10 && l.noWait {
					l.finish()
					return driver.Grant{}, locker.ErrNoAnswer
				}
				return g, err
			}
		}},
	{Name: "refused-try-leaves-a-place", Kind: whatIsSaid,
		Why: "a try without waiting joins the queue first and then looks; its place is granted the lock, for nobody",
		change: func(st *steps) {
			st.acquire = func(s *Service, from *conn, q request, c claim, now driver.Instant) answer {
				noWait := q.noWait
				q.noWait = false
				a := s.acquire(from, q, c, now)
				if noWait && a.state == queued {
					a.state = refused
				}
				return a
			}
		}},
	{Name: "cancelled-waiter-keeps-its-grant", Kind: whatIsSaid,
		Why: "a waiter that gives up leaves the queue only; if the lock was granted to it just then, nobody has the lock",
		change: func(st *steps) {
			const leaveOnly = true
			st.release = func(l *lock, ctx context.Context) error {
				q := request{verb: release, claims: []claim{l.claim}, noWait: l.current() == waiting && leaveOnly}
				_, err := l.client.call(ctx, timeLimit(l.claim.ttl), q)
				return err
			}
			st.releaseOne = func(s *Service, q request, c claim, now driver.Instant) answer {
				if r := s.data.locks[c.key]; q.noWait && r != nil && r.holder != nil && r.holder.owner == c.owner {
					return answer{state: gone}
				}
				return s.release(q, c, now)
			}
		}},
}
