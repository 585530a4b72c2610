package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// Permits as programs and operators see them: several numbers at once, lists, costs.

func twoNumbers(t T, h *Harness) {
	const few, many, contenders = 2, 4, 12
	l := h.OpenLocker(t)
	if !hasPermits(t, l) {
		return
	}
	name := step.LockName(t)
	lockers := []locker.Locker{l, h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t)}
	var inside [many + 1]atomic.Int32
	step.Contend(t, contenders, max(h.rounds(120)/contenders, 2), func(ctx context.Context, i int) error {
		n := []int{few, many}[i%2]
		return locker.DoPermit(ctx, lockers[i%len(lockers)], name, n, func(_ context.Context, lease locker.Lease) error {
			slot := locker.Slot(lease)
			if slot < 1 || slot > n {
				return fmt.Errorf("one of %d permits is slot %d", n, slot)
			}
			if k := inside[slot].Add(1); k != 1 {
				return fmt.Errorf("%d have slot %d", k, slot)
			}
			yield(3)
			inside[slot].Add(-1)
			return nil
		})
	})
	wantPermits(t, h.RemovalLimit(), l, name, many)
	h.WaitNoResidue(t)
}

// listsShowSlots looks at leases that have been renewed, because a label may be written no earlier.
func listsShowSlots(t T, h *Harness) {
	const n = 2
	l, looker, other := h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t)
	if !hasPermits(t, l) || !listsByName(t, looker, step.LockName(t)) {
		return
	}
	name := step.LockName(t)
	held := []locker.Lease{step.Acquire(t, permitOf{l, n}, name, h.ttl()...), step.Acquire(t, permitOf{l, n}, name, h.ttl()...)}
	lock := step.Acquire(t, l, name, h.ttl()...)
	waiter := step.StartAcquire(t, permitOf{other, n}, name, h.ttl()...)
	want := map[int]locker.Token{0: lock.Token(), locker.LineSlot: 0}
	for _, lease := range held {
		want[locker.Slot(lease)] = lease.Token()
	}
	var found map[int]locker.Status
	step.Eventually(t, h.ExpiryLimit(), func() error {
		found = make(map[int]locker.Status)
		all, err := listed(locker.List(t.Context(), looker, name, 1))
		if err != nil {
			return err
		}
		for _, s := range all {
			if _, twice := found[s.Slot]; twice || s.Name != name {
				return fmt.Errorf("the list shows slot %d of %q (%s) twice, or by a wrong name", s.Slot, s.Name, s.Key)
			}
			found[s.Slot] = s
		}
		for slot, token := range want {
			s, ok := found[slot]
			if !ok || s.Holder == nil || token != 0 && s.Holder.Token != 0 && s.Holder.Token != token {
				return fmt.Errorf("the list shows slot %d as %s, want the holder with token %v", slot, inWords(s), token)
			}
		}
		if len(found) != len(want) {
			return fmt.Errorf("the list shows %d locks and slots, want %d", len(found), len(want))
		}
		return nil
	})
	for slot, token := range want {
		s := lookAt(t, looker, name, locker.Look{Slot: slot, Waiters: 1})
		if s.Key != found[slot].Key || s.Holder == nil || token != 0 && s.Holder.Token != 0 && s.Holder.Token != token {
			t.Errorf("Inspect of slot %d shows the key %q with %s, want %q with the token %v", slot, s.Key, inWords(s), found[slot].Key, token)
		}
	}
	waiter.Cancel(nil)
	for _, lease := range append(held, lock) {
		step.Release(t, lease)
	}
}

// breakOfPermit breaks one of two permits while the lock of their name is held as well.
func breakOfPermit(t T, h *Harness) {
	const n = 2
	l, keeper, operator := h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t)
	if !hasPermits(t, l) {
		return
	}
	name := step.LockName(t)
	victim, other := step.Acquire(t, permitOf{l, n}, name, h.ttl()...), step.Acquire(t, permitOf{keeper, n}, name, h.ttl()...)
	lock := step.Acquire(t, keeper, name, h.ttl()...)
	for _, atOnce := range []bool{false, true} {
		b := someBreach(atOnce)
		b.Slot = locker.Slot(victim)
		waitShown(t, h, operator, victim)
		stale := victim.Token() + 1<<30
		if _, err := locker.Break(t.Context(), operator, name, stale, b); !errors.Is(err, locker.ErrNotHolder) {
			t.Errorf("Break of slot %d with the token %v, which nobody has = %v, want ErrNotHolder", b.Slot, stale, err)
		}
		takeAway(t, h, operator, victim, b)
		switch err := step.Renew(t, victim); {
		case !atOnce:
			wantBreach(t, "Renew", err, b)
		case !errors.Is(err, locker.ErrLost): // the service may have no place for a Breach where it has no lease
			t.Errorf("Renew after a break at once = %v, want ErrLost", err)
		}
		if extra, err := step.Try(t, operator, name, onSlot(locker.Slot(other))); !errors.Is(err, locker.ErrHeld) || other.Err() != nil {
			t.Errorf("after a break of slot %d, TryAcquire of slot %d = %v, %v, and the Err of its holder is %v", b.Slot, locker.Slot(other), extra, err, other.Err())
		}
		victim = step.AcquireWithin(t, h.ExpiryLimit(), permitOf{l, n}, name)
		if locker.Slot(victim) != b.Slot {
			t.Errorf("the next permit has slot %d, want %d, which was taken away", locker.Slot(victim), b.Slot)
		}
		step.WantLive(t, lock, operator)
	}
	for _, lease := range []locker.Lease{victim, other, lock} {
		step.Release(t, lease)
	}
}

// permitCosts compares requests. A permit is first asked for without waiting, which costs more than
// a request that may wait on some services: so it is compared with TryAcquire of a lock. Renewals,
// and what a service needs now and then, are counted, too, so the bound allows half a request more.
// Where several servers are asked, a server that is slow is sent fewer requests, so the same lock
// costs more or less. So the two take turns, and the least of one is compared with the most of the
// other: a permit that takes a request more does so each time.
func permitCosts(t T, h *Harness) {
	const turns, cycles, n, contenders = 3, 20, 3, 16
	lockers := []locker.Locker{h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t)}
	if !hasPermits(t, lockers[0]) {
		return
	}
	name := step.LockName(t)
	cost := func(l locker.Locker, opts ...locker.Option) float64 {
		step.Release(t, step.Acquire(t, l, name)) // and connects
		before := h.requestsAtRest(t)
		for range cycles {
			step.Release(t, step.Acquire(t, l, name, opts...))
		}
		return float64(h.requestsAtRest(t)-before) / cycles
	}
	lock, permit := 0.0, math.Inf(1)
	for range turns {
		lock = max(lock, cost(lockers[0], locker.NoWait()))
		permit = min(permit, cost(permitOf{lockers[0], n}))
	}
	if permit > lock+0.5 {
		t.Errorf("a permit that is free costs %.1f requests, and TryAcquire of a lock %.1f", permit, lock)
	}
	rounds := max(h.rounds(20*contenders)/contenders, 2)
	before := h.requestsAtRest(t)
	step.Contend(t, contenders, rounds, func(ctx context.Context, i int) error {
		return locker.DoPermit(ctx, lockers[i%len(lockers)], name, n, func(context.Context, locker.Lease) error {
			yield(3)
			return nil
		})
	})
	contended := float64(h.requestsAtRest(t)-before) / float64(contenders*rounds)
	t.Logf("requests for acquire and release: TryAcquire of a lock %.1f, a free permit %.1f, one of %d permits with %d contenders %.1f",
		lock, permit, n, contenders, contended)
}
