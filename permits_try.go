package locker

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencedlock/locker/internal/leasectx"
	"github.com/fencedlock/locker/internal/verdict"
)

// How a call asks for slots without waiting.

// hasPermit reports whether ctx comes from a permit, of whatever name: decorators change names.
func hasPermit(ctx context.Context) bool {
	return slices.ContainsFunc(leasectx.All[Lease](ctx), func(l Lease) bool { return Slot(l) > 0 })
}

// tryTwo asks for two slots, one after the other. Slots that are the caller's own don't count, and
// cost no request. If there are no others, the error matches ErrHeldByCaller: in the line the caller
// could wait for somebody who waits for one of them.
func (p *permits) tryTwo(ctx context.Context) (Lease, error) {
	var held error
	asked := 0
	for _, slot := range p.shuffled() {
		began := time.Now()
		lease, err := p.try(ctx, []int{slot})
		if err == nil || !isTaken(err) {
			return lease, p.stillHeld(ctx, err, began)
		}
		held = heldError(held, err)
		if errors.Is(err, ErrHeld) {
			p.held = true
			asked++
		}
		if asked == 2 {
			break
		}
	}
	return nil, held
}

// tryAll asks for one slot, and then for eight at a time, until one is free.
func (p *permits) tryAll(ctx context.Context) (Lease, error) {
	const most = 8
	left, batch := p.shuffled(), 1
	var held error
	for len(left) > 0 {
		batch = min(batch, len(left))
		lease, err := p.try(ctx, left[:batch])
		if err == nil || !isTaken(err) {
			return lease, err
		}
		held = heldError(held, err)
		left, batch = left[batch:], most
	}
	return nil, held
}

// isTaken reports whether err says that slots are held: by others, or by the caller itself.
func isTaken(err error) bool { return errors.Is(err, ErrHeld) || errors.Is(err, ErrHeldByCaller) }

// heldError is the error of slots that are held: held is that of some, and err that of another.
// ErrHeldByCaller is the answer only if each slot has it.
func heldError(held, err error) error {
	if held == nil || errors.Is(held, ErrHeldByCaller) {
		return err
	}
	return held
}

// shuffled returns all slots: the one that this process had last, and the others at random.
func (p *permits) shuffled() []int {
	slots := rand.Perm(p.limit)
	for i := range slots {
		slots[i]++
	}
	if last := int(hintOf(p.name).last.Swap(0)); last > 0 && last <= p.limit {
		for i, slot := range slots {
			if slot == last {
				slots[0], slots[i] = slots[i], slots[0]
			}
		}
	}
	return slots
}

// try asks for slots at the same time, without waiting. If several are free, it gives back all but
// one, which takes one more round trip. The error says that slots are held (isTaken) only if all are.
func (p *permits) try(ctx context.Context, slots []int) (Lease, error) {
	var got Lease
	var failed, held error
	answers := askSideBySide(ctx, len(slots), func(ctx context.Context, i int) (Lease, error) { return p.ask(ctx, slots[i], NoWait()) })
	var spare []Lease
	for _, a := range answers {
		switch {
		case a.err == nil && got == nil && !gone(a.lease):
			got = a.lease
		case a.err == nil:
			spare = append(spare, a.lease)
		case !isTaken(a.err):
			failed = a.err
		default:
			held = heldError(held, a.err)
		}
	}
	if len(spare) > 0 {
		releaseAll(ctx, spare)
	}
	switch {
	case got != nil && !gone(got):
		return got, nil
	case got != nil || len(spare) > 0: // another answer, or the release of others, took longer
		startRelease(ctx, []Lease{got})
		return nil, &Error{Op: "acquire", Backend: p.l.Guarantees().Backend, Name: p.name, Err: errEndedOnTheWay}
	case failed != nil:
		return nil, failed
	}
	return nil, held
}

// gone reports whether a lease has ended in a way that a further try may avoid. A longest hold that is over
// would be over again: such a lease is handed out, as by Acquire.
func gone(lease Lease) bool {
	err := lease.Err()
	return err != nil && !errors.Is(err, ErrMaxHold)
}

// errEndedOnTheWay doesn't match [ErrLost], because the caller has no lease.
var errEndedOnTheWay = &verdict.Died{Err: errors.New("the lease ended before it was handed out")}

func (p *permits) ask(ctx context.Context, slot int, more ...Option) (Lease, error) {
	opts := append(p.opts[:len(p.opts):len(p.opts)], more...)
	lease, err := acquire(ctx, p.l, p.name, append(opts, onSlot(slot)))
	if err != nil {
		return nil, err
	}
	return permit{lease, slot}, nil
}

// stillHeld is for a request for a slot, or for the line.
func (p *permits) stillHeld(ctx context.Context, err error, asked time.Time) error {
	if !p.held {
		return err
	}
	return stillHeld(ctx, p.l, p.name, err, asked)
}
