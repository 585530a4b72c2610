package conformance

import (
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// Cases F48.1 and F48.2: from which moment a lease counts its deadline.

// deadlineFromRequest delays the replies, and looks at the lease at the moment at which another
// Locker is granted the lock. Nothing is renewed in the background: a renewal that the service
// executes and whose reply is lost would hide the mistake.
func deadlineFromRequest(t T, h *Harness) {
	for _, renewed := range []bool{false, true} {
		l, link := h.OpenLinked(t)
		other, name := h.OpenLocker(t), step.LockName(t)
		step.WantFree(t, l, name)
		step.WantFree(t, other, name) // and both connect
		var lease locker.Lease
		var sent time.Time
		late := func(limit time.Duration, call func() error) {
			link.Delay(0, h.TTL/20)
			// A busy machine may make the reply too late for the client.
			step.Eventually(t, limit, func() error {
				sent = time.Now()
				if err := call(); err != nil {
					return fmt.Errorf("with replies that take a twentieth of the TTL: %w", err)
				}
				return nil
			})
		}
		get := func() (err error) {
			lease, err = step.Try(t, l, name, h.ttl(locker.WithoutRenewal())...)
			return err
		}
		if renewed {
			lease = step.Acquire(t, l, name, h.ttl(locker.WithoutRenewal())...)
			late(h.TTL/2, func() error { return step.Renew(t, lease) })
		} else {
			late(h.Slack, get)
		}
		link.Cut() // so that the service can't notify the holder
		next := step.AcquireWithin(t, h.ExpiryLimit(), other, name)
		took, err, done := time.Since(sent), lease.Err(), step.WaitClosed(lease.Done(), h.Slack/100)
		if took < h.TTL-h.TTL/100 {
			t.Errorf("another got the lock %v after it was acquired or renewed, and the TTL is %v", took, h.TTL)
		}
		if err == nil {
			t.Errorf("another has the lock, and Err = nil with the deadline %v away", time.Until(lease.Deadline()))
		}
		if !done {
			t.Errorf("another has the lock, and Done is open")
		}
		step.Release(t, next)
		link.Heal()
	}
}

// deadlineAfterWait grants the lock to a waiter whose place was refreshed a fifth of the TTL ago,
// which is less than the time between two renewals. It cuts the waiter off before its next one.
func deadlineAfterWait(t T, h *Harness) {
	holder, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	l, link := h.OpenLinked(t)
	step.WantFree(t, other, name) // and connects
	first := step.Acquire(t, holder, name)
	waiter := step.StartAcquire(t, l, name, h.ttl()...)
	h.WaitQueued(t, name, 1)
	step.Pass(t, h.TTL/5) // the refresh of the place grows old
	step.Release(t, first)
	lease := waiter.Granted(t, h.HandOffLimit())
	link.Cut()
	next := step.AcquireWithin(t, h.ExpiryLimit(), other, name)
	if err := lease.Err(); err == nil {
		t.Errorf("another has the lock, and Err = nil with the deadline %v away", time.Until(lease.Deadline()))
	}
	if !step.WaitClosed(lease.Done(), h.Slack/100) {
		t.Errorf("another has the lock, and Done is open")
	}
	step.Release(t, next)
}
