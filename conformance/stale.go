package conformance

import (
	"errors"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// Cases D33 to D34.1: what a former holder sends when its successor has the lock.

// expired lets a lease of l expire while next waits for the lock. It returns both leases.
func expired(t T, h *Harness, l, next locker.Locker, name string) (stale, successor locker.Lease) {
	t.Helper()
	stale = step.Acquire(t, l, name, h.ttl(locker.WithoutRenewal())...)
	waiter := step.StartAcquire(t, next, name)
	step.LostWithin(t, h.ExpiryLimit(), stale)
	successor = waiter.Granted(t, h.ExpiryLimit())
	return stale, successor
}

func staleRelease(t T, h *Harness) {
	l, other, third, name := h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	stale, successor := expired(t, h, l, other, name)
	for range 2 {
		err := step.MustReturn(t, step.Limit, "Release", func() error { return stale.Release(t.Context()) })
		if !errors.Is(err, locker.ErrLost) {
			t.Errorf("Release of a lost lease = %v, want ErrLost", err)
		}
		step.WantLive(t, successor, third)
	}
	step.Close(t, l)
	step.WantLive(t, successor, third)
	step.Release(t, successor)
	step.WantFree(t, third, name)
}

// staleCleanUp closes the stale Locker at the end, because Close returns only when its clean-ups
// are done.
func staleCleanUp(t T, h *Harness) {
	other, third, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	l, link := h.OpenLinked(t)
	stale := step.Acquire(t, l, name, h.ttl()...)
	link.Cut()
	waiter := step.StartAcquire(t, other, name)
	step.LostWithin(t, h.ExpiryLimit(), stale)
	successor := waiter.Granted(t, h.ExpiryLimit())
	link.Heal()
	if err := step.MustReturn(t, step.Limit, "Release", func() error { return stale.Release(t.Context()) }); !errors.Is(err, locker.ErrLost) {
		t.Errorf("Release of a lost lease = %v, want ErrLost", err)
	}
	step.Close(t, l)
	step.WantLive(t, successor, third)
	step.Release(t, successor)
	step.WantFree(t, third, name)
}

func staleRenew(t T, h *Harness) {
	l, other, third, name := h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	stale, successor := expired(t, h, l, other, name)
	if err := step.Renew(t, stale); !errors.Is(err, locker.ErrLost) {
		t.Errorf("Renew of a lost lease = %v, want ErrLost", err)
	}
	if err := stale.Err(); !errors.Is(err, locker.ErrLost) {
		t.Errorf("Err after that = %v, want ErrLost: a lost lease never comes back", err)
	}
	step.WantLive(t, successor, third)
	step.Release(t, successor)
	step.WantFree(t, third, name)
}

func staleRenewal(t T, h *Harness) {
	l, other, third, name := h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	stale := step.Acquire(t, l, name)
	h.Remove(t, name)
	successor := step.Acquire(t, other, name)
	if err := step.Renew(t, stale); !errors.Is(err, locker.ErrLost) {
		t.Errorf("Renew of a lock that somebody else has = %v, want ErrLost", err)
	}
	step.LostWithin(t, h.Slack, stale)
	wantSpared(t, successor, third, "renewal")
	step.Close(t, l) // so that its clean-up is done
	wantSpared(t, successor, third, "release, with which it cleans up,")
	step.WantLive(t, successor, third)
	step.Release(t, successor)
	step.WantFree(t, third, name)
}

// wantSpared fails the case if another Locker gets the successor's lock after a request of the
// former holder.
func wantSpared(t T, successor locker.Lease, other locker.Locker, request string) {
	t.Helper()
	lease, err := step.Try(t, other, successor.Name())
	if err != nil {
		return // step.WantLive judges the error
	}
	step.Release(t, lease)
	t.Fatalf("the former holder's %s has freed its successor's lock: want it to compare the owner", request)
}
