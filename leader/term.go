package leader

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencedlock/locker"
)

// Term is one leadership, from its election to the return of the function that leads.
type Term struct {
	// Number is larger than the number of every earlier term of this office. It is the fencing token of the
	// lease: give it to the storage before the first read and with every write.
	Number locker.Token

	// Lease is what the term rests on. Its Err reads the clock, so look at it before a step that matters.
	// Its Release gives the lock back at once, while the leader may still work; Resign doesn't.
	Lease locker.Lease

	// Since is when this process learned of its election, by its wall clock.
	Since time.Time

	resign func()
}

// Resign ends the term's context. The lock is given back when the function that leads has returned. Resign
// doesn't wait for that. It may be called twice, from any goroutine, and after the end of the term; on the
// zero Term it does nothing.
func (t Term) Resign() {
	if t.resign != nil {
		t.resign()
	}
}

// errResigned is the cause of the end of a term's context after Resign.
var errResigned = errors.New("leader: resigned")

// term calls lead, and gives the lease back when lead has returned. lost says that the lease was lost. err is lead's.
//
// When lead panics, the lock is given back, and the panic goes on.
func (c *campaign) term(
	ctx context.Context, lease locker.Lease, lead func(context.Context, Term) error,
) (lost bool, err error) {
	resignable, resign := context.WithCancelCause(ctx)
	t := Term{Number: lease.Token(), Lease: lease, Since: time.Now(), resign: func() { resign(errResigned) }}
	termCtx, end := locker.WithLease(resignable, lease)
	c.notices.add(Event{Kind: EventElected, Term: t})
	returned := c.watchOverstay(termCtx, t)
	defer func() {
		returned() // before the term ends: see watchOverstay
		end()
		resign(nil)
		lost = errors.Is(lease.Release(ctx), locker.ErrLost)
		var cause error
		if lost {
			cause = lease.Err()
		}
		c.notices.add(Event{Kind: EventEnded, Term: t, Err: cause})
		if c.gaveBack != nil {
			c.gaveBack()
		}
	}()
	return false, lead(termCtx, t)
}

// watchOverstay reports a function that leads for longer than its term. The caller calls returned when the
// function has returned, and ends the term after that. Where both have happened, the function was in time.
func (c *campaign) watchOverstay(ctx context.Context, t Term) (returned func()) {
	if c.overstay.f == nil {
		return func() {}
	}
	back := make(chan struct{})
	var verdict sync.Once // in time, or reported: what is reported comes before the end of the term
	go func() {
		select {
		case <-ctx.Done():
		case <-back:
			return
		}
		timer := time.NewTimer(c.overstay.after)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-back:
		}
		reported := false
		verdict.Do(func() {
			reported = true
			c.notices.add(Event{Kind: EventOverstaying, Term: t})
		})
		if reported {
			c.overstay.f()
		}
	}()
	return func() {
		verdict.Do(func() {})
		close(back)
	}
}
