package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

var severalCases = []Case{
	{ID: "L1", Name: "several-locks-all-or-none", Run: allOrNone,
		Why: "a caller that is refused one of several locks must not keep the others, or nobody " +
			"can use them"},
	{ID: "L2", Name: "several-locks-in-any-order-never-stick", Run: randomSets,
		Why: "two transfers between the same two accounts, in opposite directions, must not wait " +
			"for each other for ever"},
	{ID: "L3", Name: "giving-up-on-several-locks-leaves-nothing", Run: severalGivenUp,
		Why: "a caller that ran out of time at its third lock must not block those who want the " +
			"first two"},
	{ID: "L3.1", Name: "several-locks-that-fail-leave-nothing", Run: severalFailed,
		Hooks: []Hook{HookDown},
		Why: "when the service fails in the middle, the locks that were granted before must be " +
			"free when it is back"},
	{ID: "L3.2", Name: "lock-lost-while-another-is-waited-for", Run: lostOnTheWay,
		Needs: locker.RevocationRenewal, Hooks: []Hook{HookRemove},
		Why: "a caller that gets its second lock must still have the first, and must not keep the " +
			"second while it gets the first again"},
	{ID: "L4", Name: "loss-of-one-of-several-locks", Run: oneOfSeveralLost,
		Needs: locker.RevocationRenewal, Hooks: []Hook{HookRemove},
		Why: "work that needs all the locks must stop when the first is lost, and must learn " +
			"which one"},
	{ID: "L5", Name: "several-free-locks-are-asked-for-at-once", Run: askedAtOnce,
		Hooks: []Hook{HookLinked},
		Why:   "five locks that are free must not take five times as long as one"},
}

// several returns n names in the order in which AcquireAll waits for them.
func several(t T, n int) []string {
	t.Helper()
	base := step.LockName(t)
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", base, i)
	}
	return names
}

// acquireAll is AcquireAll with a limit.
func acquireAll(t T, l locker.Locker, names []string) *locker.LeaseSet {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), step.Limit)
	defer cancel()
	leases, err := locker.AcquireAll(ctx, l, locker.Wants(names...))
	if err != nil {
		t.Fatalf("AcquireAll = %v, want leases", err)
	}
	return leases
}

func releaseAll(t T, leases *locker.LeaseSet) {
	t.Helper()
	if err := leases.Release(t.Context()); err != nil {
		t.Errorf("Release of several leases = %v, want nil", err)
	}
}

func wantLockOf(t T, what string, err error, name string, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("%s = %v, want an error that matches %v", what, err, target)
		}
	}
	var e *locker.Error
	if !errors.As(err, &e) || e.Name != name {
		t.Errorf("%s = %v, want an error that names lock %q", what, err, name)
	}
}

func allOrNone(t T, h *Harness) {
	l, other, names := h.OpenLocker(t), h.OpenLocker(t), several(t, 3)
	held := step.Acquire(t, other, names[1])
	leases, err := locker.TryAcquireAll(t.Context(), l, locker.Wants(names...))
	if err == nil {
		t.Fatalf("TryAcquireAll = leases, want ErrHeld: another holder has one of the locks")
	}
	if !errors.Is(err, locker.ErrHeld) || leases != nil {
		t.Fatalf("TryAcquireAll = %v, %v, want ErrHeld", leases, err)
	}
	step.FreeWithin(t, h.Slack, other, names[0])
	step.FreeWithin(t, h.Slack, other, names[2])
	step.Release(t, held)
	step.FreeWithin(t, h.Slack, other, names[1])
	leases = acquireAll(t, l, names)
	for _, name := range names {
		step.WantLive(t, leases.Lease(name), other)
	}
	releaseAll(t, leases)
	for _, name := range names {
		step.FreeWithin(t, h.Slack, other, name)
	}
	h.WaitNoResidue(t)
}

func randomSets(t T, h *Harness) {
	const contenders, locks, most = 8, 12, 4
	names := several(t, locks)
	lockers := []locker.Locker{h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t)}
	var inside [locks]atomic.Int32
	step.Contend(t, contenders, max(h.rounds(200)/contenders, 2), func(ctx context.Context, i int) error {
		picked := rand.Perm(locks)[:1+rand.IntN(most)]
		var wants []locker.Want
		for _, k := range picked {
			wants = append(wants, locker.Want{Name: names[k]})
		}
		return locker.DoAll(ctx, lockers[i%len(lockers)], wants, func(context.Context, *locker.LeaseSet) error {
			for _, k := range picked {
				if n := inside[k].Add(1); n != 1 {
					return fmt.Errorf("%d have lock %d", n, k)
				}
			}
			yield(3)
			for _, k := range picked {
				inside[k].Add(-1)
			}
			return nil
		})
	})
	for _, name := range names {
		step.FreeWithin(t, h.Slack, lockers[0], name)
	}
	h.WaitNoResidue(t)
}

// askedAtOnce compares the time of five locks with the time of one, on a network that is so slow that
// nothing else counts. A backend that has a few messages under way at the same time, and joins what
// comes meanwhile, needs two round trips. A busy machine may be late, so the best of a few tries
// counts.
func askedAtOnce(t T, h *Harness) {
	const locks, tries, delay = 5, 5, 100 * time.Millisecond
	l, link := h.OpenLinked(t)
	names := several(t, locks)
	link.Delay(delay/2, delay/2)           // from the beginning: some backends measure the network
	releaseAll(t, acquireAll(t, l, names)) // and connects
	one, all := time.Hour, time.Hour
	for range tries {
		began := time.Now()
		lease := step.Acquire(t, l, names[0])
		one = min(one, time.Since(began))
		step.Release(t, lease)
		for range 2 { // before the second one the service has hardly had the time to clear away what is unused
			began = time.Now()
			leases := acquireAll(t, l, names)
			all = min(all, time.Since(began))
			releaseAll(t, leases)
		}
	}
	t.Logf("one lock takes %v, %d locks %v", one, locks, all)
	if all > 2*one+delay/2 {
		t.Errorf("%d free locks take %v, and one takes %v: want them to be asked for at the same time", locks, all, one)
	}
}
