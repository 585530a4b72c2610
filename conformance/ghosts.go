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
		Why: "an acquisition that the service executes after its clean-up must not block the name " +
			"forever"},
	{ID: "D39a.5", Name: "removal-stops-late-requests", Run: lateRequestAfterRemoval,
		Needs: locker.RequireTTL, Hooks: []Hook{HookLinked},
		Why: "once a removal is confirmed the lock is free; a request of the removed acquisition " +
			"that arrives within a TTL must not block it for others"},
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

// lateRequest tolerates a lock that the late request creates, for as long as it lasts by itself: what
// stops late requests on the service may last for a TTL only.
func lateRequest(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	other, name := h.OpenLocker(t), step.LockName(t)
	step.WantFree(t, l, name) // and connects
	late := 4 * h.short()
	acquireLate(t, l, link, name, late, h.short(), h.ttl()...)
	// A session that has survived must stay alive.
	alive := step.StartAcquire(t, l, step.LockName(t), h.ttl()...)
	step.Pass(t, late) // the request must have arrived
	step.FreeWithin(t, h.ExpiryLimit(), other, name)
	step.FreeWithin(t, h.Slack, l, name)
	if alive.Returned(step.Limit) && alive.Lease != nil {
		if err := alive.Lease.Release(t.Context()); err != nil && !errors.Is(err, locker.ErrLost) {
			t.Errorf("Release of the other lease = %v", err)
		}
	}
	h.WaitNoResidue(t)
}

// lateRequestAfterRemoval tolerates nothing if the driver has confirmed the removal: it has promised
// then that no request under way can create the lock.
func lateRequestAfterRemoval(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	other, name := h.OpenLocker(t), step.LockName(t)
	step.WantFree(t, l, name)
	step.WantFree(t, other, name) // and both connect
	late := h.TTL * 3 / 4
	acquireLate(t, l, link, name, late, h.TTL/4, h.ttl()...)
	step.Pass(t, late) // the request must have arrived, and no call of the driver takes as long
	stats, known := locker.StatsOf(l)
	if confirmed := known && stats.Removing == 0; !confirmed {
		t.Logf("the removal is not confirmed")
		step.FreeWithin(t, h.RemovalLimit(), other, name)
		return
	}
	if lease, err := step.Try(t, other, name); errors.Is(err, locker.ErrHeld) {
		t.Fatalf("TryAcquire = %v: the removal was confirmed, and then a late request to acquire was executed", err)
	} else if err != nil {
		t.Fatalf("TryAcquire = %v, want a lease", err)
	} else {
		step.Release(t, lease)
	}
}

// acquireLate has a request to acquire arrive late, when its caller has given up after limit. If a
// second copy of the request is granted before, that lease is released.
func acquireLate(t T, l locker.Locker, link Link, name string, late, limit time.Duration, opts ...locker.Option) {
	t.Helper()
	link.Delay(late, 0)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	a := step.StartAcquireContext(t, ctx, l, name, opts...)
	step.Pass(t, limit/8) // the request must be on its way
	link.Heal()           // from here on a new request overtakes it
	if a.Returned(step.Limit) && a.Lease != nil {
		step.Release(t, a.Lease)
	} else {
		a.Refused(t, step.Limit)
	}
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
