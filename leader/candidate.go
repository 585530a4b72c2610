package leader

import (
	"context"
	"sync"

	"github.com/fencedlock/locker"
)

// Candidate is [Run] for programs that ask whether they lead instead of being called. It is safe for
// concurrent use.
type Candidate struct {
	stop  context.CancelFunc
	ended chan struct{} // closed when it is no candidate any more

	mu      sync.Mutex
	term    *Term         // nil: it doesn't lead
	over    chan struct{} // closed when the lock of term was given back or lost
	changed chan struct{} // closed at the next election
	failure error         // of the last acquisition; nil: none has failed since the last election
	err     error         // why it is no candidate any more; set before ended is closed; nil: Close
}

// Stand begins to be a candidate for the office called name, until Close. It takes the options of
// Run. It sends nothing itself, so it doesn't wait for the service. With a bad argument there is no
// candidate: the error matches [locker.ErrName] or [locker.ErrOption]. What only the backend or its
// service can judge, such as a TTL out of bounds, ends the candidacy soon after: Err and Wait
// return it.
//
// Nothing waits for the work that the program does as the leader: Resign and Close give the lock
// back at once. So stop the work first. [WithOverstay] has no effect.
func Stand(l locker.Locker, name string, opts ...Option) (*Candidate, error) {
	campaign, err := newCampaign(l, name, opts)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Candidate{stop: stop, ended: make(chan struct{}), changed: make(chan struct{})}
	campaign.overstay = overstay{}
	campaign.failed, campaign.gaveBack = c.failed, c.gaveBack
	go func() {
		defer close(c.ended)
		err := campaign.run(ctx, c.lead)
		c.mu.Lock()
		defer c.mu.Unlock()
		if ctx.Err() == nil || isPermanent(err) {
			c.err = err
		}
	}()
	return c, nil
}

// failed is called when an acquisition has failed.
func (c *Candidate) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure = err
}

// lead makes the term known until it ends.
func (c *Candidate) lead(ctx context.Context, t Term) error {
	c.mu.Lock()
	c.term, c.over, c.failure = &t, make(chan struct{}), nil
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.term = nil
	return nil
}

// gaveBack is called when the lock of a term was given back or lost.
func (c *Candidate) gaveBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over != nil {
		close(c.over)
		c.over = nil
	}
}

// Leads returns the term if the candidate leads. It reads the clock: it is false after the deadline of the
// lease, also in a process that was stopped and has only just woken up. It takes about a microsecond, so ask
// before each step of the work, and give the term's number to the storage.
func (c *Candidate) Leads() (Term, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.term == nil || c.term.Lease.Err() != nil {
		return Term{}, false
	}
	return *c.term, true
}

// Err says what has kept the candidate from being elected, for programs that only ask whether it leads:
// a service that is down, a wrong password. It returns at once, and asks nobody. A candidate that is
// waiting already may wait for as long as its service is silent, and notes no failure meanwhile.
//
//   - While the candidate waits, it is the last failure to acquire the lock since it last led, or
//     since Stand; nil: there was none. The candidate tries again. A failure stays until the
//     candidate is elected. So it may be an old one, and the candidate waits for another leader.
//   - While the candidate leads, it is nil.
//   - When it is no candidate any more, it is what Wait returns: it matches [locker.ErrClosed] after
//     Close, or is what Run would return.
func (c *Candidate) Err() error {
	select {
	case <-c.ended:
		return c.reason()
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// Wait waits until the candidate leads. The error is ctx's, or why it is no candidate any more: it
// matches [locker.ErrClosed] after Close, or is what Run would return. If ctx ends, Err may know why
// nobody was elected.
func (c *Candidate) Wait(ctx context.Context) (Term, error) {
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		if t, leads := c.Leads(); leads {
			return t, nil
		}
		select {
		case <-changed:
		case <-c.ended:
			return Term{}, c.reason()
		case <-ctx.Done():
			return Term{}, ctx.Err()
		}
	}
}

// reason is why it is no candidate any more.
func (c *Candidate) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return locker.ErrClosed
	}
	return c.err
}

// resign ends the term, if there is one. over is closed when its lock was given back; nil: there is none.
func (c *Candidate) resign() (over <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.term != nil {
		c.term.Resign()
		c.term = nil
	}
	return c.over
}

// Resign gives the lock back if the candidate leads, and waits for that as long as
// [locker.Lease.Release] does. Leads is false as soon as Resign is called. The candidate stands
// again after the pause of the option [WithRest]. ctx covers the waiting alone: when ctx ends, the
// error is ctx's, and the candidate resigns all the same.
func (c *Candidate) Resign(ctx context.Context) error {
	over := c.resign()
	if over == nil {
		return nil
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close resigns, and ends the candidacy. It waits until the lock was given back, as long as
// [locker.Lease.Release] does, and up to a second for observers. It may be called twice. The error is what
// Run would return if the candidacy had ended before, and else nil.
func (c *Candidate) Close() error {
	c.resign()
	c.stop()
	<-c.ended
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
