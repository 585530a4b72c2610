package conformance

import (
	"errors"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

var minHoldCases = []Case{
	{ID: "C32.2", Name: "min-hold-outlasts-the-release", Run: minHold,
		Why: "a short job that many machines start at about the same time must be done once, so " +
			"its lock must not be free before the last of them has asked"},
	{ID: "C32.3", Name: "min-hold-outlasts-a-silent-holder", Run: minHoldOfTheSilent,
		Needs: locker.RequireTTL, Hooks: []Hook{HookLinked},
		Why: "a holder that dies must leave the lock held until its minimum hold is over, so the " +
			"TTL has to be as long"},
	{ID: "C32.4", Name: "close-waits-for-a-min-hold", Run: minHoldAndClose,
		Why: "a program that ends after its job closes its Locker, and the lock must stay held " +
			"for the minimum hold all the same"},
}

// minHoldOf is a minimum hold that is longer than the suite's TTL.
func (h *Harness) minHoldOf() time.Duration { return 3 * h.short() }

func minHold(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	step.WantFree(t, other, name) // and connects
	hold := h.minHoldOf()
	asked := time.Now() // the hold begins later, but a busy machine may notice the grant even later
	lease := step.Acquire(t, l, name, h.ttl(locker.WithMinHold(hold))...)
	step.WantLive(t, lease, other)
	released := time.Now()
	for range 2 {
		step.Release(t, lease)
	}
	if took := time.Since(released); took > hold/2 {
		t.Errorf("two calls of Release took %v, want them to return at once", took)
	}
	for _, err := range []error{lease.Err(), step.Renew(t, lease)} {
		if !errors.Is(err, locker.ErrReleased) || errors.Is(err, locker.ErrLost) {
			t.Errorf("after Release, Err or Renew = %v, want ErrReleased", err)
		}
	}
	wantHeldBefore(t, asked.Add(hold), other, name)
	wantHeldBefore(t, asked.Add(hold), l, name)
	next := step.StartAcquire(t, other, name).Granted(t, hold+h.HandOffLimit()+h.Slack)
	if held := time.Since(asked); held < hold {
		t.Errorf("with a minimum hold of %v, another got the lock after %v", hold, held)
	}
	step.Release(t, next)
	h.WaitNoResidue(t)
}

// wantHeldBefore fails the case if the lock is free before a moment. After that moment it says
// nothing: the machine may have stood still until then.
func wantHeldBefore(t T, end time.Time, l locker.Locker, name string) {
	t.Helper()
	switch lease, err := step.Try(t, l, name); {
	case errors.Is(err, locker.ErrHeld):
	case err == nil && !time.Now().Before(end):
		t.Logf("this machine was late by %v to ask", time.Since(end))
		step.Release(t, lease)
	case err == nil:
		t.Fatalf("TryAcquire(%q) = token %v, want ErrHeld: somebody has it for another %v", name, lease.Token(), time.Until(end))
	default:
		t.Fatalf("TryAcquire(%q) = %v, want ErrHeld: somebody has it", name, err)
	}
}

// minHoldOfTheSilent cuts the holder off as soon as it has the lock.
func minHoldOfTheSilent(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	other, name := h.OpenLocker(t), step.LockName(t)
	step.WantFree(t, other, name) // and connects
	hold := h.minHoldOf()
	asked := time.Now()
	lease := step.Acquire(t, l, name, h.ttl(locker.WithMinHold(hold))...)
	link.Cut()
	ttl := hold + hold/4 + time.Second // services round up
	next := step.StartAcquire(t, other, name).Granted(t, ttl+h.guarantees.Expiry.Slack+h.Slack)
	if held := time.Since(asked); held < hold {
		t.Errorf("with a minimum hold of %v, another got the lock of a silent holder after %v", hold, held)
	}
	if lease.Err() == nil {
		t.Errorf("Err = nil, and another has the lock")
	}
	step.Release(t, next)
}

func minHoldAndClose(t T, h *Harness) {
	l, other, released, held := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t), step.LockName(t)
	step.WantFree(t, other, released) // and connects
	hold := h.minHoldOf()
	asked := time.Now()
	first := step.Acquire(t, l, released, h.ttl(locker.WithMinHold(hold))...)
	second := step.Acquire(t, l, held, h.ttl(locker.WithMinHold(hold))...)
	step.Release(t, first)
	waiting := []*step.Attempt{step.StartAcquire(t, other, released), step.StartAcquire(t, other, held)}
	step.Close(t, l)
	if took := time.Since(asked); took < hold {
		t.Errorf("Close returned after %v, before the minimum hold of %v was over", took, hold)
	}
	if err := second.Err(); !errors.Is(err, locker.ErrReleased) || !errors.Is(err, locker.ErrClosed) {
		t.Errorf("after Close, Err = %v, want ErrReleased and ErrClosed", err)
	}
	for _, a := range waiting {
		next := a.Granted(t, h.HandOffLimit()+h.Slack)
		if age := time.Since(asked); age < hold {
			t.Errorf("with a minimum hold of %v, another got the lock after %v", hold, age)
		}
		step.Release(t, next)
	}
	h.WaitNoResidue(t)
}
