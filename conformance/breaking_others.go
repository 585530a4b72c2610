package conformance

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// Cases J74.2, J75.2 to J75.4 and J76.1: what a break must not end, and what must not end a break.

// markAmongMany marks one of many leases that are renewed together, and cuts the network when its
// holder has learnt of it. It proves little where a holder learns of a break without a renewal, or a
// session is renewed in place of its locks.
func markAmongMany(t T, h *Harness) {
	const n = 20
	l, link := h.OpenLinked(t)
	other, base := h.OpenLocker(t), step.LockName(t)
	step.WantFree(t, other, base) // and connects
	var leases []locker.Lease
	var victim locker.Lease
	for range 3 {
		leases = acquireMany(t, l, step.LockName(t), n, h.ttl()...)
		victim = leases[n/2]
		untilRenewed(t, h, victim)
		if victim.Err() == nil {
			break
		}
		t.Logf("the machine stood still: %v", victim.Err())
	}
	waitShown(t, h, other, victim)
	takeAway(t, h, other, victim, someBreach(false))
	step.LostWithin(t, h.ExpiryLimit(), victim)
	link.Cut()
	successors := takeEach(t, h, other, slices.Delete(leases, n/2, n/2+1), func(former locker.Lease) {
		if err := former.Err(); err == nil {
			t.Errorf("another has the lock, and Err = nil with the deadline %v away: a lease that was renewed together "+
				"with one that is marked must be renewed on the service, too", time.Until(former.Deadline()))
		}
	})
	link.Heal()
	for _, next := range successors {
		step.Release(t, next)
	}
}

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

// nobodyAfterBreak asks when nobody else has asked for the lock. The holder doesn't renew, so it doesn't
// remove what is left, and the service doesn't forget the lease by itself before the time is up.
func nobodyAfterBreak(t T, h *Harness) {
	l, operator, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	if _, err := locker.CurrentToken(t.Context(), l, name, 0); errors.Is(err, errors.ErrUnsupported) {
		t.Logf("CurrentToken = %v", err)
		return
	}
	victim := step.Acquire(t, l, name, locker.WithoutRenewal())
	waitShown(t, h, operator, victim)
	takeAway(t, h, operator, victim, someBreach(true))
	wantNoToken(t, operator, name, h.Slack)
}

// breakKeepsQueue has another one ask when the lease has been broken, which must come last where the
// order is promised. Elsewhere it proves that each waiter is granted the lock.
func breakKeepsQueue(t T, h *Harness) {
	const queue = 3
	l, operator, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	victim := step.Acquire(t, l, name, h.longTTL()...)
	var waiters []*step.Attempt
	for i := range queue {
		waiters = append(waiters, step.StartAcquire(t, h.OpenLocker(t), name, h.longTTL()...))
		h.WaitQueued(t, name, i+1)
	}
	waitShown(t, h, operator, victim)
	takeAway(t, h, operator, victim, someBreach(true))
	waiters = append(waiters, step.StartAcquire(t, operator, name, h.longTTL()...))
	h.WaitQueued(t, name, queue) // the first has the lock
	for i := range waiters {
		if locker.OrderFIFO.Check(h.guarantees) == nil {
			step.Release(t, grantedInTurn(t, h.HandOffLimit(), waiters, i))
			continue
		}
		first := step.FirstGranted(t, step.Limit, waiters)
		step.Release(t, waiters[first].Granted(t, 0))
		waiters = slices.Delete(waiters, first, first+1)
	}
	h.WaitNoResidue(t)
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
