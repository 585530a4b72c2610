package locker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fencedlock/locker/internal/callsite"
)

const (
	queuesAtOnce = 4                     // slots in whose queues the first in the line waits: on Postgres each takes a connection
	looksAtOnce  = 32                    // other slots that it asks for in each round
	firstLook    = 25 * time.Millisecond // where permits come and go fast, one of the queues is faster
	lookEvery    = 250 * time.Millisecond
	queueFor     = 5 * time.Second // in the same queues
)

// standInLine waits for the line, and then for a slot.
//
// The call that has the line has places in the queues of its slots. So a call that asks for a slot
// without waiting passes it only on a slot where nobody waits.
func (p *permits) standInLine(ctx context.Context) (Lease, error) {
	asked := time.Now()
	line, err := acquire(ctx, p.l, p.name, p.line)
	if err != nil {
		return nil, p.stillHeld(ctx, err, asked)
	}
	p.held = p.held || p.behindOthers
	defer startRelease(ctx, []Lease{line}) // in the background, also after a panic
	waiting, cancel := waitContext(ctx)
	defer cancel(nil)
	over := make(chan struct{})
	defer close(over)
	watch([]Lease{line}, over, func(err error) { cancel(&lostOnTheWay{err}) })
	lease, err := p.waitForSlot(ctx, waiting)
	if why := context.Cause(waiting); err != nil && why != nil && ctx.Err() == nil && isLostOnTheWay(why) {
		p.forgetHeld()
		return nil, why
	}
	if err != nil {
		return nil, err
	}
	if gone(lease) { // while others were looked at
		lost := lease.Err()
		startRelease(ctx, []Lease{lease})
		p.forgetHeld()
		return nil, &lostOnTheWay{lost}
	}
	return lease, nil
}

// forgetHeld is called when a lease was lost: the service may be away since then.
func (p *permits) forgetHeld() { p.held, p.behindOthers = false, false }

var errNextQueues = errors.New("it is time for the queues of other slots") // no caller sees it

// waitForSlot waits in the queues of a few slots, and then in those of the next ones. On a slot that
// it only looks at, calls that don't wait could pass it without end.
func (p *permits) waitForSlot(ctx, waiting context.Context) (Lease, error) {
	slots, k := p.shuffled(), min(queuesAtOnce, p.limit)
	for {
		lease, err := p.waitInQueues(ctx, waiting, slots[:k], slots[k:])
		if err != errNextQueues { //nolint:errorlint // never wrapped
			return lease, err
		}
		slots = slices.Concat(slots[k:], slots[:k])
	}
}

// slotWait is how the first in the line waits: in the queues of a few slots at the same time. At
// the others it looks now and then.
type slotWait struct {
	p       *permits
	ctx     context.Context //nolint:containedctx // the caller's, for releases
	waiting context.Context //nolint:containedctx // ends when nothing is waited for any more

	queues  int         // how many slots are waited for
	answers chan answer // of these calls
	noted   []answer    // those that have come
	others  []int       // the slots that are looked at
	own     int         // how many of these the last looks have found to be the caller's own, one after the other
	looked  time.Time   // when the last look began
	next    *time.Timer // when the next one is due; nil: there are no others
	won     Lease       // the first grant
	err     error       // why the wait has failed
}

// waitInQueues returns when all its calls have returned, and grants that nobody wants are being
// released.
func (p *permits) waitInQueues(ctx, waiting context.Context, slots, others []int) (lease Lease, err error) {
	waiting, cancel := context.WithCancel(callsite.Note(waiting))
	k, asked := len(slots), time.Now()
	w := &slotWait{
		p: p, ctx: ctx, waiting: waiting,
		queues: k, answers: make(chan answer, k), others: slices.Clone(others), looked: asked,
	}
	for _, slot := range slots {
		go func() {
			var a answer
			defer func() { w.answers <- a }()
			a = ask(func() (Lease, error) {
				lease, err := p.ask(waiting, slot)
				return lease, p.stillHeld(waiting, err, asked)
			})
		}()
	}
	waited := false
	defer func() {
		if !waited { // a look at other slots has panicked
			w.fail(errPanicked)
		}
		w.finish(cancel)
		repeatPanics(w.noted)
		lease, err = w.won, w.err
	}()
	w.wait()
	waited = true
	return nil, nil //nolint:nilnil // set above
}

// wait returns when there is a grant or an error, or nothing is left to wait for.
func (w *slotWait) wait() {
	var next, move <-chan time.Time
	if len(w.others) > 0 {
		timer := time.NewTimer(firstLook)
		defer timer.Stop()
		w.next, next = timer, timer.C
		// Not shortly before the time is up: then the slots must have answered.
		if until, limited := w.waiting.Deadline(); !limited || time.Until(until) > 2*queueFor {
			move = time.After(queueFor)
		}
	}
	for w.won == nil && w.err == nil && (len(w.noted) < w.queues || w.own < len(w.others)) {
		var over <-chan struct{}
		if len(w.noted) == w.queues { // otherwise one of these calls says what the end of the context means
			over = w.waiting.Done()
		}
		select {
		case a := <-w.answers:
			w.note(a)
		case <-next:
			w.look()
		case <-move:
			w.fail(errNextQueues)
		case <-over:
			w.fail(w.overBy())
		}
	}
}

// overBy returns what the Locker says of a context that is over. A Locker that is broken may grant a
// slot all the same; nobody wants it any more.
func (w *slotWait) overBy() error {
	lease, err := w.p.ask(w.waiting, 1, NoWait())
	if err == nil {
		startRelease(w.ctx, []Lease{lease})
		err = &Error{Op: "acquire", Backend: w.p.l.Guarantees().Backend, Name: w.p.name, Err: contextError(w.waiting)}
	}
	return w.p.stillHeld(w.waiting, err, w.looked)
}

// note processes the answer of a queue. A slot that is the caller's own is no failure. A grant that
// comes just when it is time for other queues is the caller's turn.
func (w *slotWait) note(a answer) {
	w.noted = append(w.noted, a)
	moves := w.err == errNextQueues //nolint:errorlint // never wrapped
	switch {
	case !a.returned:
		if moves {
			w.err = nil // the panic will be repeated, so a grant must not be used
		}
		w.fail(errPanicked)
	case a.lease != nil && w.won == nil && (w.err == nil || moves):
		w.won, w.err = a.lease, nil
	case a.lease != nil:
		startRelease(w.ctx, []Lease{a.lease})
	case w.won == nil && !errors.Is(a.err, ErrHeldByCaller):
		w.fail(a.err)
	}
}

// fail notes the first error. What was granted isn't wanted any more.
func (w *slotWait) fail(err error) {
	if w.err != nil {
		return
	}
	w.err = err
	if w.won != nil {
		startRelease(w.ctx, []Lease{w.won})
		w.won = nil
	}
}

// finish waits for the calls that have not returned yet. A grant that comes meanwhile is used if
// there is no other, and the wait hasn't failed.
func (w *slotWait) finish(cancel context.CancelFunc) {
	cancel()
	for len(w.noted) < w.queues {
		w.note(<-w.answers)
	}
	if w.won == nil {
		w.fail(w.noted[0].err) // if nothing has failed, all slots are the caller's own
	}
}

// look asks for some of the other slots without waiting, and moves these to the end.
func (w *slotWait) look() {
	w.next.Reset(lookEvery)
	w.looked = time.Now()
	k := min(looksAtOnce, len(w.others))
	some := slices.Clone(w.others[:k])
	w.others = append(w.others[:0], append(slices.Clone(w.others[k:]), some...)...)
	lease, err := w.p.try(w.waiting, some)
	switch {
	case err == nil:
		w.won = lease
	case errors.Is(err, ErrHeldByCaller):
		if w.own += k; w.own < len(w.others) {
			w.next.Reset(0) // this look has cost no request
		}
	case mayWait(err):
		w.own = 0
	case w.waiting.Err() != nil: // those that wait know what that means: a look without an answer doesn't match ErrHeld
	case len(w.noted) < w.queues: // the calls in the queues outlive a short failure, or say that the wait has failed
		w.own = 0
	default:
		w.fail(err)
	}
}
