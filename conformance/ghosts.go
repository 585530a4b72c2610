package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// What an acquisition leaves, and what it costs other leases. A ghost is a lock that is held on the
// service and belongs to nobody. A TTL doesn't end a lock that is attached to a session which is
// alive.
var ghostCases = []Case{
	{ID: "D39a.1", Name: "stalled-network-leaves-no-ghost", Run: stalledNetwork,
		Needs: locker.RequireTTL, Hooks: []Hook{HookLinked},
		Why: "a holder that lost its lease while the network stalled must free the name when the " +
			"network is back, though its session is alive"},
	{ID: "D39a.2", Name: "max-hold-leaves-no-ghost", Run: maxHoldGhost,
		Why: "a lease that ended by its longest hold must free the name, though the session that " +
			"it is attached to is renewed for others"},
	{ID: "D39a.3", Name: "expired-lease-leaves-no-ghost", Run: expiredGhost,
		Needs: locker.RequireTTL,
		Why: "a lease that was not renewed must free the name, though the session that it is " +
			"attached to is renewed for others"},
	{ID: "D39a.4", Name: "late-request-leaves-no-ghost", Run: lateRequest,
		Hooks: []Hook{HookLinked},
		Why: "an acquisition that the service executes after its clean-up must not block the name: " +
			"not for a TTL if the clean-up was confirmed, and otherwise not forever"},
	{ID: "D39b", Name: "failed-acquisition-costs-no-other-lease", Run: failuresCostNothing,
		Why: "leases share connections and sessions; giving up one acquisition must not end the " +
			"other leases"},
	{ID: "D39b.1", Name: "broken-acquisition-costs-no-other-lease", Run: brokenCostsNothing,
		Needs: locker.RequireTTL, Hooks: []Hook{HookLinked},
		Why: "an acquisition whose reply was lost must not end the session of other leases"},
}

func stalledNetwork(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	other, name := h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name, h.ttl()...)
	link.Cut()
	step.LostWithin(t, h.ExpiryLimit(), lease)
	link.Heal()
	// A session that has survived must stay alive.
	alive := step.Acquire(t, l, step.LockName(t), h.ttl()...)
	step.Pass(t, h.TTL/10) // the holder is connected again
	step.FreeWithin(t, h.RemovalLimit(), other, name)
	step.FreeWithin(t, h.RemovalLimit(), l, name)
	step.Pass(t, 2*h.TTL) // nothing late may bring the lock back
	step.WantFree(t, other, name)
	step.WantLive(t, alive, other)
	step.Release(t, alive)
}

func maxHoldGhost(t T, h *Harness) {
	l, other := h.OpenLocker(t), h.OpenLocker(t)
	name, otherName := step.LockName(t), step.LockName(t)
	alive := step.Acquire(t, l, otherName, h.ttl()...)
	lease := step.Acquire(t, l, name, h.ttl(locker.WithMaxHold(h.short()))...)
	step.LostWithin(t, h.short()+h.Slack, lease)
	step.FreeWithin(t, h.Slack, other, name)
	step.WantLive(t, alive, other)
	step.Release(t, alive)
}

func expiredGhost(t T, h *Harness) {
	l, other := h.OpenLocker(t), h.OpenLocker(t)
	name, otherName := step.LockName(t), step.LockName(t)
	alive := step.Acquire(t, l, otherName, h.ttl()...)
	lease := step.Acquire(t, l, name, h.ttl(locker.WithoutRenewal())...)
	step.LostWithin(t, h.ExpiryLimit(), lease)
	step.FreeWithin(t, h.ExpiryLimit(), other, name)
	step.WantLive(t, alive, other)
	step.Release(t, alive)
}

func lateRequest(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	other, name := h.OpenLocker(t), step.LockName(t)
	step.WantFree(t, l, name) // and connects
	late := 4 * h.short()
	link.Delay(late, 0)
	ctx, cancel := context.WithTimeout(t.Context(), h.short())
	defer cancel()
	a := step.StartAcquireContext(t, ctx, l, name, h.ttl()...)
	step.Pass(t, h.short()/8) // the request must be on its way
	link.Heal()               // from here on a new request overtakes it
	if a.Returned(step.Limit) && a.Lease != nil {
		step.Release(t, a.Lease) // it was sent a second time, and that was granted
	} else {
		a.Refused(t, step.Limit)
	}
	// A session that has survived must stay alive.
	alive := step.StartAcquire(t, l, step.LockName(t), h.ttl()...)
	step.Pass(t, late) // the request must have arrived
	if h.allRemoved(l) { // so nothing of the acquisition exists, and no late request may create it
		step.WantFree(t, other, name)
	}
	step.FreeWithin(t, h.ExpiryLimit(), other, name)
	step.FreeWithin(t, h.Slack, l, name)
	if alive.Returned(step.Limit) && alive.Lease != nil {
		if err := alive.Lease.Release(t.Context()); err != nil && !errors.Is(err, locker.ErrLost) {
			t.Errorf("Release of the other lease = %v", err)
		}
	}
	h.WaitNoResidue(t)
}

// allRemoved reports whether the driver has confirmed each removal that l had to do, of calls that
// ended more than a TTL ago. Without a TTL nobody knows when a call of the driver has ended, and
// without statistics nothing is known of removals.
func (h *Harness) allRemoved(l locker.Locker) bool {
	stats, ok := locker.StatsOf(l)
	return ok && stats.Removing == 0 && h.TTL > 0
}

func failuresCostNothing(t T, h *Harness) {
	l, other := h.OpenLocker(t), h.OpenLocker(t)
	mine, theirs := step.LockName(t), step.LockName(t)
	lease := step.Acquire(t, l, mine, h.ttl()...)
	obstacle := step.Acquire(t, other, theirs)
	for range 5 {
		step.WantHeld(t, l, theirs)
		a := step.StartAcquire(t, l, theirs, h.ttl()...)
		h.WaitQueued(t, theirs, 1)
		a.Cancel(nil)
		a.Refused(t, h.Slack, context.Canceled)
		ctx, cancel := context.WithTimeout(t.Context(), h.short()/8)
		step.StartAcquireContext(t, ctx, l, theirs, h.ttl()...).Refused(t, step.Limit, context.DeadlineExceeded)
		cancel()
		step.WantLive(t, lease, other)
	}
	step.Pass(t, 4*h.short()) // the lease must be renewed as before
	step.WantLive(t, lease, other)
	step.Release(t, obstacle)
	step.WantFree(t, l, theirs)
	step.Release(t, lease)
}

func brokenCostsNothing(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	other := h.OpenLocker(t)
	mine, broken := step.LockName(t), step.LockName(t)
	lease := step.Acquire(t, l, mine, h.ttl()...)
	for range 3 {
		late, began := h.TTL/4, time.Now()
		link.Delay(0, late)
		ctx, cancel := context.WithTimeout(t.Context(), h.TTL/20)
		granted, err := step.AcquireContext(t, ctx, l, broken, h.ttl()...)
		took := time.Since(began)
		cancel()
		link.Heal()
		if err == nil { // on a busy machine the end of the context may come as late as the reply
			if took < late {
				t.Errorf("Acquire got a lease after %v, though every reply came %v late", took, late)
			}
			step.Release(t, granted)
		}
		step.Pass(t, h.TTL/2) // a renewal must come between the faults
		step.WantLive(t, lease, other)
	}
	step.Pass(t, 2*h.TTL) // the lease must be renewed as before
	step.WantLive(t, lease, other)
	step.Release(t, lease)
	step.FreeWithin(t, h.RemovalLimit(), other, broken)
}
