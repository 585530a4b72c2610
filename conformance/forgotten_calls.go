package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// Cases F52.4 to F52.6: the first call on a Locker whose connections the network has forgotten is one that
// ends or renews a lease. Before it nothing is sent, so nothing has found out about the connections. As a rule
// the TTL of a lease that is given back is the default, so that the lease doesn't end by itself in time.

// The time limits that Lease and Locker state for their own calls.
const (
	releaseLimit = 5 * time.Second
	renewLimit   = 5 * time.Second
	closeLimit   = 15 * time.Second
)

// forgottenRelease requires that a release that isn't confirmed in time is sent again until it is.
func forgottenRelease(t T, h *Harness) {
	l, link := h.openForgetful(t)
	other, name := h.OpenLocker(t), step.LockName(t)
	h.warmUp(t, l, link, idleConnections)
	lease := step.Acquire(t, l, name)
	link.Forget()
	err := step.MustReturn(t, releaseLimit+h.Slack, "Release", func() error { return lease.Release(t.Context()) })
	t.Logf("Release = %v", err)
	switch {
	case err == nil:
		step.WantFree(t, other, name)
	case errors.Is(err, locker.ErrLost):
		h.wantConnectionBound(t)
		step.FreeWithin(t, h.RemovalLimit(), other, name)
	case errors.Is(err, locker.ErrUnconfirmed):
		step.FreeWithin(t, h.RemovalLimit(), other, name)
		step.Eventually(t, h.RemovalLimit(), func() error { return lease.Release(t.Context()) }) // it asks again
	default:
		t.Errorf("Release = %v, want nil, or an error that matches ErrUnconfirmed", err)
	}
	h.WaitNoResidue(t)
}

// forgottenRenewal has a lease that only its holder renews, until its deadline is later. After the first
// deadline another Locker must not get the lock: a renewal that is confirmed has reached the service. (Where
// Expiry.Slack is long, the service may keep the lock that long without it.)
func forgottenRenewal(t T, h *Harness) {
	l, link := h.openForgetful(t)
	other, name := h.OpenLocker(t), step.LockName(t)
	h.warmUp(t, l, link, idleConnections)
	lease := step.Acquire(t, l, name, h.longTTL(locker.WithoutRenewal())...)
	before := lease.Deadline()
	ttl := time.Until(before)
	step.Pass(t, ttl/4)
	link.Forget()
	later := time.Duration(0)
	for lease.Err() == nil && later < ttl/8 {
		h.renewByHand(t, lease, min(ttl/4, renewLimit))
		step.Pass(t, h.TTL/10)
		later = lease.Deadline().Sub(before)
	}
	if lease.Err() != nil {
		step.LostWithin(t, 0, lease)
		h.wantConnectionBound(t)
		step.FreeWithin(t, h.RemovalLimit(), other, name)
		return
	}
	step.Pass(t, time.Until(before)+later/2)
	h.wantHeldWhile(t, other, lease)
	_ = lease.Release(t.Context()) // it may have ended on a machine that stood still
	step.FreeWithin(t, h.RemovalLimit(), other, name)
}

// renewByHand calls Renew once, and fails the case if the answer can't be true.
func (h *Harness) renewByHand(t T, lease locker.Lease, limit time.Duration) {
	t.Helper()
	before := lease.Deadline()
	err := step.MustReturn(t, limit+h.Slack, "Renew", func() error { return lease.Renew(t.Context()) })
	t.Logf("Renew = %v", err)
	switch live := lease.Err() == nil; {
	case live && err == nil && !lease.Deadline().After(before):
		t.Errorf("Renew = nil, and the deadline is where it was")
	case live && (errors.Is(err, locker.ErrLost) || errors.Is(err, locker.ErrReleased)):
		t.Errorf("Renew = %v, and Err is nil: the lease has not ended", err)
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		t.Errorf("Renew = %v, want no error of a context: the caller's has no end", err)
	}
}

// forgottenClose requires that Close removes the locks before it returns where the backend soon notices that
// connections are dead. Elsewhere they end with their TTL, because a Locker that is closed sends nothing.
func forgottenClose(t T, h *Harness) {
	notices := h.afterForgotten(t, 1)
	l, link := h.openForgetful(t)
	other := h.OpenLocker(t)
	h.warmUp(t, l, link, idleConnections)
	var opts []locker.Option
	limit := h.RemovalLimit()
	if notices > closeLimit/6 {
		t.Logf("dead connections are noticed after %v: Close may be too late to remove a lock", notices)
		opts = h.longTTL()
		limit += closeLimit + 8*h.TTL
	}
	leases := []locker.Lease{step.Acquire(t, l, step.LockName(t), opts...), step.Acquire(t, l, step.LockName(t), opts...)}
	link.Forget()
	end := time.Now().Add(limit)
	closeErr := step.MustReturn(t, closeLimit+h.Slack, "Close", l.Close)
	t.Logf("Close = %v", closeErr)
	for _, lease := range leases {
		err := step.EndedWithin(t, h.Slack, lease)
		if !errors.Is(err, locker.ErrReleased) || !errors.Is(err, locker.ErrClosed) || errors.Is(err, locker.ErrLost) {
			t.Errorf("after Close, Err = %v, want ErrReleased and ErrClosed", err)
		}
		if closeErr == nil {
			step.WantFree(t, other, lease.Name())
		} else {
			step.FreeWithin(t, time.Until(end), other, lease.Name())
		}
	}
	h.WaitNoResidue(t)
}

// wantConnectionBound fails the case if a lease that is lost wasn't attached to a connection.
func (h *Harness) wantConnectionBound(t T) {
	t.Helper()
	if by := h.guarantees.Expiry.By; by >= locker.ExpirySession {
		t.Errorf("the lease is lost, and not attached to a connection: its end is %v", by)
	}
}
