package conformance

import (
	"errors"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

var ttlCases = []Case{
	{ID: "C25", Name: "silent-holder-loses-the-lock", Run: silentHolder, Needs: locker.RequireTTL,
		Probe: true,
		Why: "a holder that died must not keep the lock forever, and a holder that is alive must " +
			"have it for the whole TTL"},
	{ID: "C25.1", Name: "lease-lasts-between-clocks-that-differ", Run: leasesBetweenClocks,
		Needs: all(locker.RequireTTL, locker.ClocksServer), Hooks: []Hook{HookSkewed},
		Why: "an expiry that one machine writes and another one compares with its own clock ends " +
			"a lease too early or never"},
	{ID: "C26", Name: "renewal-keeps-the-lock", Run: renewalKeeps, Needs: locker.RequireTTL,
		Why: "work may take longer than any TTL; as long as the holder is alive, it keeps the " +
			"lock"},
	{ID: "C26.1", Name: "many-leases-are-all-renewed", Run: manyLeases, Needs: locker.RequireTTL,
		Why: "renewals go in batches; if a batch is cut somewhere, the leases after the cut expire " +
			"and their holders are told that all is well"},
	{ID: "C27", Name: "late-grant-is-no-lease", Run: lateGrant, Needs: locker.RequireTTL,
		Hooks: []Hook{HookLinked},
		Why: "a grant that took longer than its TTL may be another holder's by the time it " +
			"arrives"},
	{ID: "C28", Name: "failed-renewal-is-survived", Run: renewalFailsOnce, Needs: locker.RequireTTL,
		Hooks: []Hook{HookLinked},
		Why: "a short failure of the network is no loss: there is time for another renewal before " +
			"the deadline"},
	{ID: "C29", Name: "renewal-never-revives-a-lock", Run: renewRace, Needs: locker.RequireTTL,
		Why: "a renewal that arrives after the release must find nothing to renew, or the name is " +
			"blocked for nobody"},
	{ID: "C29.1", Name: "no-renewal-after-release", Run: noRenewalAfter, Needs: locker.RequireTTL,
		Hooks: []Hook{HookRequests},
		Why: "renewals of leases that have ended load the service until the process ends, and may " +
			"touch a successor's lock"},
	{ID: "C29.2", Name: "late-renewal-revives-nothing", Run: lateRenewal, Needs: locker.RequireTTL,
		Hooks: []Hook{HookLinked},
		Why: "a renewal may be on its way while the lock is released, and may arrive when nobody " +
			"holds the lock"},
	{ID: "C29.3", Name: "renewal-in-steps-revives-nothing", Run: renewalInSteps, Needs: locker.RequireTTL,
		Hooks: []Hook{HookLinked},
		Why: "a renewal that looks who has the lock, and then sets it, blocks the name for a TTL when " +
			"the lock is released in between"},
	{ID: "C30", Name: "renew-extends-the-deadline", Run: renewExtends, Needs: locker.RequireTTL,
		Why: "a holder that calls Renew must see how much time it has gained, and must get an " +
			"error when there is nothing to renew"},
	{ID: "C31", Name: "ttl-asked-is-ttl-given", Run: ttlGiven, Needs: locker.RequireTTL,
		Why: "if a TTL is ignored, shortened or counted by another clock, the holder loses the " +
			"lock too early or blocks it for far too long"},
	{ID: "C31.1", Name: "ttl-that-cant-be-kept-is-refused", Run: ttlRefused, Needs: noTTL{},
		Why: "a program that asks for a TTL relies on it; a backend without TTLs must refuse it " +
			"instead of ignoring it"},
	{ID: "C31.2", Name: "long-ttl-is-no-short-one", Run: ttlsThatWrap, Needs: locker.RequireTTL,
		Why: "a TTL of days is asked for now and then; where a number of 32 bits cuts it, the next " +
			"holder gets in after seconds"},
	{ID: "C31.3", Name: "ttls-of-one-locker-are-apart", Run: ttlsApart, Needs: locker.RequireTTL,
		Hooks: []Hook{HookLinked},
		Why: "where leases are attached to sessions, a second TTL on the first one's session gives the " +
			"lock away too early, or keeps it for too long"},
	{ID: "C32", Name: "lease-without-renewal-expires", Run: withoutRenewal,
		Needs: locker.RequireTTL,
		Why:   "a holder that wants no renewal must lose the lease at its deadline, with ErrLost"},
	{ID: "C32.1", Name: "max-hold-ends-the-lease", Run: maxHold,
		Why: "a holder that is stuck but renews must not keep the lock forever when a longest " +
			"hold was set"},
}

// silentHolder cuts the holder's network where the harness can. Elsewhere a holder without renewals
// takes the place of a silent one. Such a holder is alive and releases at its deadline what it has lost, so
// it may free the lock a little before the TTL is over.
func silentHolder(t T, h *Harness) {
	if h.TTL == 0 {
		t.Fatalf("the harness names no TTL")
	}
	var l locker.Locker
	cut := func() {}
	if h.Linked == nil {
		l = h.OpenLocker(t)
	} else {
		linked, link := h.OpenLinked(t)
		l, cut = linked, link.Cut
	}
	other, name := h.OpenLocker(t), step.LockName(t)
	step.WantFree(t, other, name) // and connects
	sent := time.Now()
	lease := step.Acquire(t, l, name, h.ttl(locker.WithoutRenewal())...)
	if shown := lease.Deadline().Sub(sent); shown < h.TTL-h.TTL/10-10*time.Millisecond {
		t.Errorf("the deadline is %v after the acquisition, want about the TTL %v", shown, h.TTL)
	}
	cut()
	next := step.StartAcquire(t, other, name).Granted(t, h.ExpiryLimit())
	if early := time.Until(lease.Deadline()); early > 0 {
		t.Errorf("another got the lock %v before the deadline", early)
	}
	if took := time.Since(sent); h.Linked != nil && took < h.TTL-h.TTL/100 {
		t.Errorf("another got the lock after %v, before the TTL %v was over", took, h.TTL)
	}
	if lease.Err() == nil {
		t.Errorf("Err = nil, and another has the lock")
	}
	step.Release(t, next)
}

func lateGrant(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	other, name := h.OpenLocker(t), step.LockName(t)
	step.WantFree(t, l, name) // and connects
	link.Delay(0, h.TTL*3/2)
	lease, err := step.Try(t, l, name, h.ttl()...)
	if err == nil {
		t.Fatalf("a grant that took 3/2 of its TTL gave a lease, with %v to its deadline", time.Until(lease.Deadline()))
	}
	if errors.Is(err, locker.ErrHeld) {
		t.Errorf("TryAcquire = %v, and nobody has the lock", err)
	}
	link.Heal()
	step.FreeWithin(t, h.RemovalLimit(), other, name)
	step.FreeWithin(t, h.RemovalLimit(), l, name)
}

// ttlGiven also asks for a TTL that whole seconds shorten, whatever the harness' TTL is.
func ttlGiven(t T, h *Harness) {
	other := h.OpenLocker(t)
	for _, asked := range []time.Duration{h.TTL, 2 * h.TTL, h.TTL + 1400*time.Millisecond} {
		l, name := h.OpenLocker(t), step.LockName(t)
		step.WantFree(t, other, name) // and connects
		sent := time.Now()
		lease := step.Acquire(t, l, name, locker.WithTTL(asked), locker.WithoutRenewal())
		shown := lease.Deadline().Sub(sent)
		if shown < asked-asked/10-10*time.Millisecond {
			t.Errorf("the deadline is %v away, want about the TTL %v", shown, asked)
		}
		bound := shown + asked/10 + h.guarantees.Expiry.Slack + h.Slack
		next := step.StartAcquire(t, other, name).Granted(t, bound)
		if early := time.Until(lease.Deadline()); early > 0 {
			t.Errorf("with a TTL of %v, another got the lock %v before the deadline", asked, early)
		}
		step.Release(t, next)
	}
}

// ttlsApart cuts off a Locker that has had a short TTL, and then has a long and a short one at the
// same time.
func ttlsApart(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	other, first, long, short := h.OpenLocker(t), step.LockName(t), step.LockName(t), step.LockName(t)
	step.WantFree(t, other, first) // and connects
	step.Release(t, step.Acquire(t, l, first, h.ttl(locker.WithoutRenewal())...))
	lease := step.Acquire(t, l, long, h.longTTL(locker.WithoutRenewal())...)
	step.Acquire(t, l, short, h.ttl(locker.WithoutRenewal())...)
	link.Cut()
	// What has the short TTL must be over, and what has the long one must not.
	step.Pass(t, min(3*h.TTL+h.guarantees.Expiry.Slack, time.Until(lease.Deadline())*3/4))
	step.WantLive(t, lease, other)
	step.FreeWithin(t, h.Slack, other, short)
}

func ttlRefused(t T, h *Harness) {
	l, name := h.OpenLocker(t), step.LockName(t)
	if _, err := step.Try(t, l, name, locker.WithTTL(time.Minute)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Acquire with a TTL = %v, want ErrUnsupported", err)
	}
	step.WantFree(t, l, name)
}

func withoutRenewal(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name, h.ttl(locker.WithoutRenewal())...)
	deadline := lease.Deadline()
	step.Pass(t, time.Until(deadline)/2) // the lease must be held before its deadline
	step.WantLive(t, lease, other)
	step.LostWithin(t, time.Until(deadline)+h.Slack, lease)
	if early := time.Until(deadline); early > h.TTL/10 {
		t.Errorf("Done was closed %v before the deadline", early)
	}
	if err := step.MustReturn(t, step.Limit, "Release", func() error { return lease.Release(t.Context()) }); !errors.Is(err, locker.ErrLost) {
		t.Errorf("Release of an expired lease = %v, want ErrLost", err)
	}
	step.FreeWithin(t, h.ExpiryLimit(), other, name)
}

func maxHold(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	limit := 4 * h.short()
	before := time.Now()
	lease := step.Acquire(t, l, name, h.ttl(locker.WithMaxHold(limit))...)
	step.WantLive(t, lease, other)
	step.LostWithin(t, time.Until(before)+limit+2*h.Slack, lease)
	err := lease.Err()
	if !errors.Is(err, locker.ErrMaxHold) {
		t.Errorf("Err = %v, want ErrMaxHold", err)
	}
	if held := time.Since(before); held < limit-limit/100 {
		t.Errorf("with a longest hold of %v the lease was over after %v", limit, held)
	}
	var e *locker.Error
	if !errors.As(err, &e) || e.Name != name {
		t.Errorf("Err = %#v, want a *locker.Error with the lock's name", err)
	}
	step.FreeWithin(t, h.Slack, other, name)
}
