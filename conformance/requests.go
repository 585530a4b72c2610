package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// Cases C29.3, D35.1, F48.4 and J73.2: what a driver does in two requests where one must decide. Each
// request takes a while to the service, so that somebody else comes in between.

// renewalInSteps has a lease released while its renewal is under way. A renewal that looks first, and
// then sets the lock, sets it after the release.
func renewalInSteps(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	other, name := h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name)
	late := h.TTL / 10
	link.Delay(late, 0)
	renewed := make(chan error, 1)
	go func() { renewed <- lease.Renew(context.Background()) }()
	step.Pass(t, late*3/2) // a first request has arrived, and a second one is on its way
	link.Heal()            // from here on the release overtakes it
	step.Release(t, lease)
	step.WantFree(t, other, name)
	err := step.MustReturn(t, step.Limit, "Renew", func() error { return <-renewed })
	t.Logf("Renew of a lease that was released meanwhile = %v", err)
	step.Pass(t, h.TTL) // whatever was under way must have arrived
	step.WantFree(t, other, name)
	h.WaitNoResidue(t)
}

// releaseAtTheEnd releases leases shortly before their deadlines, each at another moment, so that one
// request comes before the end of a lease, and a second one after it. Who gets the locks then must
// keep them.
func releaseAtTheEnd(t T, h *Harness) {
	const moments = 8
	l, link := h.OpenLinked(t)
	other, third, base := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	step.WantFree(t, other, base)
	step.WantFree(t, third, base) // and both connect
	leases := acquireMany(t, l, base, moments, h.ttl(locker.WithoutRenewal())...)
	late := h.TTL / 10
	done := make(chan error, moments)
	for i, lease := range leases {
		step.Pass(t, time.Until(lease.Deadline())-late*time.Duration(moments-i)/4)
		link.Delay(late, 0)
		go func() { done <- lease.Release(context.Background()) }()
	}
	successors := takeEach(t, h, other, leases, func(locker.Lease) {})
	link.Heal()
	for range 4 {
		step.Pass(t, late) // a late request may arrive
		for _, next := range successors {
			step.WantLive(t, next, third)
		}
	}
	for range leases {
		_ = step.MustReturn(t, step.Limit, "Release", func() error { return <-done }) // it may have come too late
	}
	for _, next := range successors {
		step.Release(t, next)
	}
}

// acquireMany acquires n locks whose names begin with base.
func acquireMany(t T, l locker.Locker, base string, n int, opts ...locker.Option) (leases []locker.Lease) {
	t.Helper()
	for i := range n {
		leases = append(leases, step.Acquire(t, l, member(base, i), opts...))
	}
	return leases
}

// takeEach has l acquire the lock of each lease as soon as the service grants it, and calls taken at
// that moment.
func takeEach(t T, h *Harness, l locker.Locker, leases []locker.Lease, taken func(former locker.Lease)) []locker.Lease {
	t.Helper()
	successors := make([]locker.Lease, len(leases))
	step.Eventually(t, h.ExpiryLimit(), func() (err error) {
		for i, former := range leases {
			if successors[i] != nil {
				continue
			}
			next, refused := step.Try(t, l, former.Name())
			if refused != nil {
				err = fmt.Errorf("the lock is not free; the last TryAcquire = %w", refused)
				continue
			}
			taken(former)
			successors[i] = next
		}
		return err
	})
	return successors
}

// batchInRequests has replies come late, and cuts the network when some leases have been renewed. A
// driver that asks for them one after another must not count all from the last request.
func batchInRequests(t T, h *Harness) {
	const n = 5 // a request for each of them takes a quarter of the TTL
	l, link := h.OpenLinked(t)
	other, base := h.OpenLocker(t), step.LockName(t)
	step.WantFree(t, other, base) // and connects
	leases := acquireMany(t, l, base, n, h.ttl()...)
	link.Delay(0, h.TTL/20)
	for _, lease := range leases {
		untilRenewed(t, h, lease)
	}
	link.Cut()
	successors := takeEach(t, h, other, leases, func(former locker.Lease) {
		if err := former.Err(); err == nil {
			t.Errorf("another has the lock, and Err = nil with the deadline %v away: each lease must count its TTL "+
				"from the request that has renewed it", time.Until(former.Deadline()))
		}
	})
	link.Heal()
	for _, next := range successors {
		step.Release(t, next)
	}
}

// untilRenewed waits until the deadline of a lease moves, or until the lease is over, because the
// machine is so busy that replies come too late.
func untilRenewed(t T, h *Harness, lease locker.Lease) {
	t.Helper()
	before := lease.Deadline()
	step.Eventually(t, h.ExpiryLimit(), func() error {
		if lease.Err() == nil && lease.Deadline().Equal(before) {
			return fmt.Errorf("the lease is live and isn't renewed")
		}
		return nil
	})
}

// breakInSteps has the lock pass on while a break of its former holder is on its way.
func breakInSteps(t T, h *Harness) {
	operator, link := h.OpenLinked(t)
	other, third, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	for _, l := range []locker.Locker{operator, other, third} {
		step.WantFree(t, l, name) // and connects
	}
	late := h.short() / 5
	for _, atOnce := range []bool{false, true} {
		// Before the first request has arrived, while a second one is on its way, and a third one.
		for _, passed := range []time.Duration{late / 2, late * 3 / 2, late * 5 / 2} {
			// Of a new Locker: a break at once may end the connection.
			victim := step.Acquire(t, h.OpenLocker(t), name, h.ttl()...)
			waitShown(t, h, third, victim)
			link.Delay(late, 0)
			broken := make(chan error, 1)
			go func() {
				_, err := locker.Break(context.Background(), operator, name, victim.Token(), someBreach(atOnce))
				broken <- err
			}()
			step.Pass(t, passed)
			_ = step.MustReturn(t, step.Limit, "Release", func() error { return victim.Release(t.Context()) }) // it may be broken already
			next := step.AcquireWithin(t, h.RemovalLimit(), other, name)
			err := step.MustReturn(t, step.Limit, "Break", func() error { return <-broken })
			t.Logf("Break (at once: %v) of a lease that is released after %v = %v", atOnce, passed, err)
			link.Heal()
			if err := step.Renew(t, next); err != nil {
				t.Errorf("Renew of the next holder = %v, want nil: its token is %v, and Break was asked for %v", err, next.Token(), victim.Token())
			}
			step.WantLive(t, next, third)
			step.Release(t, next)
		}
	}
}
