package locker

import (
	"context"
	"errors"
	"fmt"
)

const (
	// MaxPermits is the largest limit of [AcquirePermit].
	MaxPermits = 1000

	// LineSlot is the slot of the line: the lock of those who wait for any permit of a name.
	LineSlot = -1
)

// AcquirePermit acquires one permit of a name. At most limit callers have one at the same time, in
// all processes: limit is how many permits there are, and not how many this call wants.
//
// A permit is an exclusive lease on a slot of the name, from 1 to limit, which [Slot] returns. So
// all that is promised of a lease is promised of a permit: a TTL, renewal, a loss that is noticed,
// and a token that rises from one holder of the slot to the next. The options are the same as for
// Acquire, without [WithMinHold].
//
// What belongs to a slot can be fenced: a tape drive, a shard, a licence, the number of a worker.
// The resource is then the name with the slot, such as "worker/3". A cap on concurrent calls, which
// belongs to no slot, can't be fenced.
//
// Each call says the limit for itself. Nothing is stored, so the limit may change from one version
// of a program to the next: with two limits at the same time there are never more permits than the
// larger one, and a call with the smaller one gets slots up to that. All wait in one line: a call
// with a smaller limit at its head holds up all behind it, even if a slot above its limit is free.
// limit must be from 1 to [MaxPermits], and [WithMinHold] is refused; otherwise the error matches
// [ErrOption].
//
// The lock called name is another lock, which no permit excludes. A program that changes from the
// lock to permits must use another name while older versions run. [Inspect], [CurrentToken] and
// [Break] ask about a permit, or take it away, by its slot.
//
// A permit costs one request, as a lock does, if the first slot that is asked for is free, and two
// if it is held and the second one is free. Other callers wait in a line, which is a lock too, in
// the order of the backend ([Guarantees.Order]). The first of the line waits for up to four slots,
// after 5 s for the next four, and asks for up to 32 others after 25 ms and then four times a
// second. If a process in the line dies, those after it wait until its place is over, as for a
// lock. ctx covers the waiting alone. If the call fails, all that it got is released. The time of
// [WithMaxHold] counts from the grant of the slot, which may be a little before the return.
//
// Nothing finds out that two callers, each with a permit, wait for the other's: a caller that wants
// several should ask with a deadline, or with [TryAcquirePermit].
//
// On a backend without permits the error matches [errors.ErrUnsupported]. With a ctx that comes
// from [WithLease] of permits, the error is [ErrHeldByCaller] only if these permits are on all slots.
func AcquirePermit(ctx context.Context, l Locker, name string, limit int, opts ...Option) (Lease, error) {
	p, err := newPermits(l, name, limit, opts)
	if err != nil {
		return nil, err
	}
	if p.noWait {
		return p.tryAll(ctx)
	}
	return p.acquire(ctx)
}

// TryAcquirePermit acquires one permit of a name, as AcquirePermit with the option [NoWait]: it asks
// for each slot from 1 to limit once, up to eight at a time, until one is free. If all are held, the
// error matches [ErrHeld]. A slot may be held for the moment by another such call that got two and
// gives one back.
func TryAcquirePermit(ctx context.Context, l Locker, name string, limit int, opts ...Option) (Lease, error) {
	return AcquirePermit(ctx, l, name, limit, append(opts[:len(opts):len(opts)], NoWait())...)
}

// DoPermit is [Do] with one permit of a name in place of the lock. At most limit callers have one at
// the same time: see [AcquirePermit].
func DoPermit(
	ctx context.Context, l Locker, name string, limit int, fn func(context.Context, Lease) error,
	opts ...Option,
) error {
	return do(ctx, fn, func() (Lease, error) { return AcquirePermit(ctx, l, name, limit, opts...) })
}

// Slot returns the number of the slot that a permit is a lease on, from 1 on. It is 0 if l is no
// permit.
func Slot(l Lease) int {
	p, ok := As[interface{ Slot() int }](l)
	if !ok {
		return 0
	}
	return p.Slot()
}

// ValidSlot returns nil if slot is 0, which stands for the lock called name, a slot of a permit, from 1 to
// [MaxPermits], or [LineSlot]. The rule is the same on every backend. The error matches [ErrOption].
func ValidSlot(slot int) error {
	if slot < LineSlot || slot > MaxPermits {
		return fmt.Errorf("%w: slot %d: want from 1 to %d, or %d for the line", ErrOption, slot, MaxPermits, LineSlot)
	}
	return nil
}

// permit is a lease on a slot.
type permit struct {
	Lease
	slot int
}

func (p permit) Slot() int { return p.slot }

// Unwrap leads [As] to the lease underneath.
func (p permit) Unwrap() any { return p.Lease }

// Release also notes the slot, so that this process asks for it first the next time.
func (p permit) Release(ctx context.Context) error {
	err := p.Lease.Release(ctx)
	if err == nil {
		hintOf(p.Name()).last.Store(int32(p.slot)) //nolint:gosec // at most MaxPermits
	}
	return err
}

// permits is one call of AcquirePermit.
type permits struct {
	l      Locker
	name   string
	limit  int
	opts   []Option
	line   []Option // of the line: the TTL of the permit, because on some backends each TTL is a session
	noWait bool

	behindOthers bool // calls with the same Locker waited in the line when this one began
	held         bool // the service has said to this call, or to those, that slots are held
}

func newPermits(l Locker, name string, limit int, opts []Option) (*permits, error) {
	req, err := Resolve(name, opts...)
	switch {
	case err != nil:
	case limit < 1 || limit > MaxPermits:
		err = fmt.Errorf("%w: a limit of %d permits: want from 1 to %d", ErrOption, limit, MaxPermits)
	case req.MinHold > 0:
		err = fmt.Errorf("%w: WithMinHold doesn't go together with permits: a slot that is got on the way and not used would be kept", ErrOption)
	case req.Slot != 0:
		err = fmt.Errorf("%w: slot %d: AcquirePermit chooses the slot", ErrOption, req.Slot)
	}
	if err != nil {
		return nil, &Error{Op: "acquire", Backend: l.Guarantees().Backend, Name: name, Err: err}
	}
	p := &permits{l: l, name: name, limit: limit, opts: opts, line: []Option{onSlot(LineSlot)}, noWait: req.NoWait}
	if req.TTL > 0 {
		p.line = append(p.line, WithTTL(req.TTL))
	}
	if req.Holder != "" {
		p.line = append(p.line, WithHolder(req.Holder))
	}
	return p, nil
}

func onSlot(slot int) Option { return func(r *Request) { r.Slot = slot } }

// acquire asks for two slots, and then waits in the line. If this Locker already waits for a permit
// of this name with the same limit, or a larger one, it only waits in the line, unless it may have all
// the slots itself.
func (p *permits) acquire(ctx context.Context) (Lease, error) {
	hint, call := hintOf(p.name), waitingCall{lineKey(p.l, p.name), p.limit}
	p.behindOthers = hint.isBehindOthers(call) && !hasPermit(ctx)
	if !p.behindOthers {
		lease, err := p.tryTwo(ctx)
		if err == nil || !mayWait(err) {
			return lease, err
		}
		p.held = errors.Is(err, ErrHeld) // otherwise one was granted, and lost at once
	}
	hint.join(call)
	defer hint.leave(call)
	return again(ctx, func() (Lease, error) { return p.standInLine(ctx) })
}
