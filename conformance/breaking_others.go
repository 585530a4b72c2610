package conformance

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// Cases J75.2 and J76.1: what a break must not end, and what must not end a break.

// breakSparesOthers breaks one of two leases of a Locker. A service that can only end both refuses that.
func breakSparesOthers(t T, h *Harness) {
	l, operator := h.OpenLocker(t), h.OpenLocker(t)
	victim, other := step.Acquire(t, l, step.LockName(t), h.longTTL()...), step.Acquire(t, l, step.LockName(t), h.longTTL()...)
	waitShown(t, h, operator, victim)
	b := someBreach(true)
	b.WithOthers = false
	effect, err := tryBreak(t, operator, victim.Name(), victim.Token(), b)
	live, refused := []locker.Lease{other}, errors.Is(err, locker.ErrOption)
	switch {
	case refused:
		t.Logf("Break at once = %+v, %v", effect, err)
		if effect.Others < 1 || effect.Within != 0 {
			t.Errorf("Break at once, which would end other leases = %+v, %v, want how many, and nothing else", effect, err)
		}
		live = append(live, victim)
	case err != nil:
		t.Fatalf("Break at once, of one of two leases = %v, want nil, or ErrOption where the other one would end as well", err)
	case effect.Others != 0:
		t.Errorf("Break at once without WithOthers = %+v, want no others", effect)
	}
	for _, lease := range live {
		if failed := step.Renew(t, lease); failed != nil {
			t.Errorf("after Break = %+v, %v, Renew of a lease that it must not end = %v", effect, err, failed)
		}
		step.WantLive(t, lease, operator)
	}
	if refused {
		othersAreCounted(t, h, operator, victim, other)
	} else {
		step.Release(t, other)
	}
	step.FreeWithin(t, h.HandOffLimit(), operator, victim.Name())
}

// othersAreCounted breaks a lease, and allows that others end as well. There is one other, and the
// answer must say whether it has ended.
func othersAreCounted(t T, h *Harness, operator locker.Locker, victim, other locker.Lease) {
	t.Helper()
	limit := h.Slack
	if locker.RevocationAtOnce.Check(h.guarantees) != nil {
		limit += time.Until(other.Deadline()) / 2
	}
	waitShown(t, h, operator, victim)
	effect, err := tryBreak(t, operator, victim.Name(), victim.Token(), someBreach(true))
	if err != nil {
		t.Fatalf("Break at once with WithOthers = %v, want nil", err)
	}
	ended := 0
	if step.WaitClosed(other.Done(), limit) {
		ended = 1
	}
	if effect.Others != ended {
		t.Errorf("Break at once with WithOthers = %+v, and the Err of the one other lease of that Locker is %v", effect, other.Err())
	}
	if ended == 0 {
		step.WantLive(t, other, operator)
		step.Release(t, other)
	}
	step.FreeWithin(t, h.HandOffLimit(), operator, other.Name())
}

// markOverRestart marks the lease of a holder that is cut off, and restarts the service before the
// holder hears of it. The lease may have expired meanwhile.
func markOverRestart(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	operator, name := h.OpenLocker(t), step.LockName(t)
	victim := step.Acquire(t, l, name, locker.WithoutRenewal())
	waitShown(t, h, operator, victim)
	link.Cut()
	takeAway(t, h, operator, victim, someBreach(false))
	h.Restart(t)
	link.Heal()
	step.Eventually(t, h.RemovalLimit(), func() error { // a connection that the restart has broken may fail once
		err := step.Renew(t, victim)
		switch {
		case err == nil:
			t.Fatalf("Renew = nil: the restart has revived a lease that was taken away")
		case !errors.Is(err, locker.ErrLost):
			return fmt.Errorf("renewal of a lease that is taken away = %w", err)
		}
		t.Logf("Renew = %v", err)
		return nil
	})
	step.FreeWithin(t, h.RemovalLimit(), operator, name)
}
