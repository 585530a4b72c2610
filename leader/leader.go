// Package leader elects one of several processes to lead, with a lock of any [locker.Locker].
//
//	err := leader.Run(ctx, l, "controllers/billing", func(ctx context.Context, t leader.Term) error {
//		return reconcile(ctx, t.Number) // return when ctx ends
//	})
//
// Each candidate waits for the lock. The one that has it leads for a term, which ends when the lease is
// lost, when the leader resigns, or when its function returns.
//
//   - The context of the leader's function ends with the term, before anybody else can be elected,
//     whatever the network does, as far as the backend's exclusion goes ([locker.Guarantees]). It
//     follows the deadline of the lease.
//   - Terms are numbered by fencing tokens, so a storage can refuse the writes of an earlier leader.
//     That is what protects data if a leader was paused and goes on as if nothing had happened.
//   - The lock is given back, and the next term begins in this process, only when the function has
//     returned. If it doesn't return after its term was lost, others lead in the meantime, and
//     [WithOverstay] is the way to end the process. Close of the Locker, and Release of a term's lease,
//     give the lock back at once: end ctx, and wait for Run, before you close the Locker.
//
// [Run] calls a function. [Stand] is for programs that ask whether they lead. [Current] and [Watch] say
// who leads.
package leader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencedlock/locker"
)

// ErrStop ends [Run] when lead returns an error that matches it.
var ErrStop = errors.New("leader: stop")

// Run is a candidate for the office called name until ctx ends: it waits to be elected, calls lead, and is
// a candidate again when lead has returned or the term was lost. name is the name of a lock of l.
//
// lead's context comes from ctx and ends with the term: when the lease is lost, with [Term.Resign],
// and with ctx. It is a context of [locker.WithLease]: its Err reads the clock, and contexts that
// are derived from it end a moment later. lead must return then. When lead returns, the leader
// resigns. If its error matches [ErrStop], Run returns it. Run ignores any other error of lead, and
// goes on after a rest, see [WithRest]. When lead panics, the term ends, the lock is given back, and
// the panic goes on.
//
// Errors of the service, and [locker.ErrTooManyTTLs], are waited out with growing pauses, see [WithBackoff]. Run
// returns ctx's error when ctx ends, or an error that no wait can change: it matches [locker.ErrName],
// [locker.ErrOption], [errors.ErrUnsupported], [locker.ErrHeldByCaller] or [locker.ErrClosed]. Bad arguments are
// found before anything is sent.
//
// Run returns when lead has returned and the lock was given back, or after about 5 seconds if the service
// doesn't confirm that; the removal goes on in the background, as after [locker.Lease.Release].
func Run(
	ctx context.Context, l locker.Locker, name string,
	lead func(ctx context.Context, t Term) error, opts ...Option,
) error {
	if lead == nil {
		return fmt.Errorf("leader: %w: the function that leads is nil", locker.ErrOption)
	}
	c, err := newCampaign(l, name, opts)
	if err != nil {
		return err
	}
	return c.run(ctx, lead)
}

// campaign is a candidate for one office.
type campaign struct {
	config
	l        locker.Locker
	name     string
	notices  notices     // from run on
	failed   func(error) // called when an acquisition has failed; nil: nobody wants to know
	gaveBack func()      // called when the lock of a term was given back or lost; nil: nobody wants to know
}

func newCampaign(l locker.Locker, name string, opts []Option) (*campaign, error) {
	c := &campaign{config: newConfig(opts), l: l, name: name}
	if c.err == nil {
		_, c.err = locker.Resolve(name, c.acquire...)
	}
	if c.err != nil {
		return nil, fmt.Errorf("leader: %w", c.err)
	}
	return c, nil
}

// run makes one term after the other.
func (c *campaign) run(ctx context.Context, lead func(context.Context, Term) error) error {
	c.notices = newNotices(ctx, c.observers)
	defer c.notices.wait()
	pause := c.backoff.min
	c.notices.add(Event{Kind: EventStanding})
	for {
		lease, err := c.l.Acquire(ctx, c.name, c.acquire...)
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = lease.Release(ctx) // what isn't confirmed is removed in the background
			}
			return ctx.Err()
		case err != nil:
			c.acquisitionFailed(err)
			if isPermanent(err) {
				return err
			}
			pause = c.backOff(ctx, pause)
			continue
		}
		began := time.Now()
		lost, err := c.term(ctx, lease, lead)
		switch {
		case errors.Is(err, ErrStop):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if !lost || time.Since(began) >= c.backoff.max {
			pause = c.backoff.min
		}
		c.notices.add(Event{Kind: EventStanding})
		if lost {
			pause = c.backOff(ctx, pause)
		} else {
			sleep(ctx, jitter(c.rest))
		}
	}
}

// acquisitionFailed tells those who want to know.
func (c *campaign) acquisitionFailed(err error) {
	if c.failed != nil {
		c.failed(err)
	}
	c.notices.add(Event{Kind: EventAcquisitionFailed, Err: err})
}

// isPermanent reports whether no wait can change an error of Acquire.
func isPermanent(err error) bool {
	class := locker.OutcomeOf(err)
	return class == locker.OutcomeInvalid || class == locker.OutcomeClosed
}

// backOff waits for pause ± half of it, or until ctx ends, and returns the next pause.
func (c *campaign) backOff(ctx context.Context, pause time.Duration) time.Duration {
	sleep(ctx, min(jitter(pause), c.backoff.max))
	return min(2*pause, c.backoff.max)
}

// jitter is a random time: d ± half of it.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d+1) }

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
