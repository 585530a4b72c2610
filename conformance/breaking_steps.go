package conformance

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// Steps of the cases about breaks.

// someBreach is what an operator says.
func someBreach(atOnce bool) locker.Breach {
	return locker.Breach{
		By: "bob@ops-1, 日本", Reason: "hangs since 17:50, OPS-119", At: time.Now().Truncate(time.Millisecond),
		AtOnce: atOnce, WithOthers: true,
	}
}

// waitShown waits until Inspect shows the token of a lease. Some services learn it with a renewal;
// before that they can't tell whether the lease has the lock. What Inspect shows is judged by other
// cases.
func waitShown(t T, h *Harness, operator locker.Locker, lease locker.Lease) {
	t.Helper()
	if locker.InspectionHolder.Check(h.guarantees) != nil {
		return
	}
	left, renewed := time.Until(lease.Deadline()), time.Now()
	for end := renewed.Add(left); time.Now().Before(end); step.Pass(t, left/100) {
		if s, err := inspectLease(t, operator, lease); err == nil && s.Holder != nil && s.Holder.Token == lease.Token() {
			return
		}
		if time.Since(renewed) > left/10 {
			if err := step.Renew(t, lease); errors.Is(err, locker.ErrLost) { // it may have no answer in time
				t.Fatalf("Renew = %v", err)
			}
			renewed = time.Now()
		}
	}
}

// inspectLease asks for the status of the lock of a lease, or of the slot of a permit.
func inspectLease(t T, operator locker.Locker, lease locker.Lease) (locker.Status, error) {
	ctx, cancel := context.WithTimeout(t.Context(), step.Limit)
	defer cancel()
	return locker.Inspect(ctx, operator, lease.Name(), locker.Look{Slot: locker.Slot(lease)})
}

func tryBreak(t T, l locker.Locker, name string, token locker.Token, b locker.Breach) (locker.Effect, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), step.Limit)
	defer cancel()
	var effect locker.Effect
	err := step.MustReturn(t, step.Limit+step.Limit/2, "Break", func() (err error) {
		effect, err = locker.Break(ctx, l, name, token, b)
		return err
	})
	return effect, err
}

// takeAway breaks a lease, and fails the case unless that works. It returns after what time the
// lock is free at the latest.
func takeAway(t T, h *Harness, operator locker.Locker, lease locker.Lease, b locker.Breach) (within time.Duration) {
	t.Helper()
	deadline := lease.Deadline()
	effect, err := tryBreak(t, operator, lease.Name(), lease.Token(), b)
	if err != nil {
		t.Fatalf("Break(%q, %v) = %v, want nil", lease.Name(), lease.Token(), err)
	}
	switch left := time.Until(deadline); {
	case effect.Others < 0 || effect.Within < -1:
		t.Errorf("Break = %+v, want nothing negative but -1, for a time that isn't known", effect)
	case b.AtOnce && effect.Within != 0:
		t.Errorf("Break at once = %+v, want the lock to be free now", effect)
	case effect.Within == 0 && lease.Err() != nil: // its holder has seen the mark already, and has released the lock
	case effect.Within == -1 && h.guarantees.Expiry.By != locker.ExpiryKey: // a session whose timeout nobody knows
		return h.ExpiryLimit()
	case !b.AtOnce && (h.guarantees.Expiry.TTL || effect.Within == 0) && effect.Within < left:
		t.Errorf("Break says that the lock is free after %v, and the holder trusts its lease for %v", effect.Within, left)
	}
	return effect.Within
}

// breakOfOddNames marks the locks of all odd names while all of them are held.
func breakOfOddNames(t T, h *Harness) {
	l, operator, base := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	var leases []locker.Lease
	for _, name := range odd {
		leases = append(leases, step.Acquire(t, l, base+name, h.longTTL()...))
	}
	for i, lease := range leases {
		waitShown(t, h, operator, lease)
		b := someBreach(false)
		takeAway(t, h, operator, lease, b)
		wantBroken(t, h, lease, b)
		if t.Failed() {
			return // one is enough
		}
		for _, next := range leases[i+1:] {
			if err := next.Err(); errors.Is(err, locker.ErrBroken) {
				t.Fatalf("the lock %q is taken away, and the Err of the lease on %q = %v", lease.Name(), next.Name(), err)
			}
		}
	}
	h.WaitNoResidue(t)
}

// wantBroken renews a lease that is marked, and fails the case unless its holder learns of b by the next
// renewal in the background at the latest.
func wantBroken(t T, h *Harness, lease locker.Lease, b locker.Breach) {
	t.Helper()
	left := time.Until(lease.Deadline())
	_ = step.Renew(t, lease) // it may have no answer in time
	wantBreach(t, "Err of the lease on "+strconv.Quote(lease.Name()), step.EndedWithin(t, left/2+h.Slack, lease), b)
}

// wantBreach fails the case unless err is the loss of a lease by b.
func wantBreach(t T, what string, err error, b locker.Breach) {
	t.Helper()
	var found *locker.Breach
	if !errors.Is(err, locker.ErrLost) || !errors.Is(err, locker.ErrBroken) || !errors.As(err, &found) || locker.LossOf(err) != locker.LossBroken {
		t.Errorf("%s = %v (LossOf = %q), want ErrLost and ErrBroken, and a Breach", what, err, locker.LossOf(err))
		return
	}
	if found.By != b.By || found.Reason != b.Reason || !found.At.Equal(b.At) || found.AtOnce != b.AtOnce || found.Slot != b.Slot {
		t.Errorf("%s = %v, want a Breach of slot %d by %q at %v: %q", what, err, b.Slot, b.By, b.At, b.Reason)
	}
}
