package conformance

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/conformance/step"
)

var ownershipCases = []Case{
	{ID: "D33", Name: "stale-release-frees-nothing", Run: staleRelease, Needs: locker.RequireTTL,
		Why: "a holder that comes too late must not free its successor's lock: a third holder " +
			"would get it at the same time"},
	{ID: "D33.1", Name: "stale-clean-up-frees-nothing", Run: staleCleanUp, Needs: locker.RequireTTL,
		Hooks: []Hook{HookLinked},
		Why: "requests that a holder sends after its network was cut and healed must not free its " +
			"successor's lock"},
	{ID: "D34", Name: "stale-renew-renews-nothing", Run: staleRenew, Needs: locker.RequireTTL,
		Why: "a holder that comes too late must get ErrLost from Renew, and must not extend its " +
			"successor's lock"},
	{ID: "D34.1", Name: "stale-renewal-on-the-service-is-refused", Run: staleRenewal,
		Needs: locker.RevocationRenewal, Hooks: []Hook{HookRemove},
		Why: "only the service knows that a lock has changed hands early; a renewal or a release that " +
			"doesn't name its owner changes the successor's lock"},
	{ID: "D35", Name: "retried-release-spares-the-next-lease", Run: retriedRelease,
		Needs: locker.RequireTTL, Hooks: []Hook{HookLinked},
		Why: "a Release whose reply was lost is sent again; by then the same process may hold the " +
			"lock again, on the same connection"},
	{ID: "D35.1", Name: "release-at-the-end-spares-the-next-lease", Run: releaseAtTheEnd,
		Needs: locker.RequireTTL, Hooks: []Hook{HookLinked},
		Why: "a release that looks who has the lock, and then deletes it, deletes the next holder's " +
			"lock when the lease expires in between"},
	{ID: "D36", Name: "acquire-with-a-lost-reply", Run: lostReply, Hooks: []Hook{HookLinked},
		Why: "when the reply is lost, a process may hold the lock without knowing it: it must " +
			"find out or clean up, and not wait for itself"},
	{ID: "D37", Name: "forced-removal-is-learnt", Run: forcedRemoval,
		Needs: locker.RevocationRenewal, Probe: true, Hooks: []Hook{HookRemove},
		Why: "an operator that removes a lock must be able to rely on two things: its holder " +
			"notices, and doesn't touch the next holder's lock"},
	{ID: "D37.1", Name: "forced-removal-is-learnt-at-once", Run: removalAtOnce,
		Needs: locker.RevocationAtOnce, Probe: true, Hooks: []Hook{HookRemove},
		Why: "where the service notifies the holder, the holder must not have to wait for a " +
			"renewal"},
	{ID: "D38", Name: "killed-holder-frees-the-lock", Run: killed, Hooks: []Hook{HookProcess},
		Why: "kill -9, a crash and a power cut don't call Release; others must get the lock " +
			"within the limit that Guarantees state"},
	{ID: "D38.1", Name: "stopped-holder-keeps-the-lock", Run: stopped, Needs: noTTL{},
		Hooks: []Hook{HookProcess},
		Why: "where no lease ends by time, a suspended holder must not find a second holder when " +
			"it is resumed"},
	{ID: "D39", Name: "same-instant-different-owners", Run: sameInstant,
		Why: "owners that are made of a host name and a time collide, and then two acquisitions " +
			"believe that they own the same lock"},
}

func retriedRelease(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	other, name := h.OpenLocker(t), step.LockName(t)
	first := step.Acquire(t, l, name, h.ttl()...)
	link.Drop(1)
	released := make(chan error, 1)
	go func() { released <- first.Release(context.Background()) }()
	// The service has executed the release then. If the reply was to the first of two requests, that
	// comes with the next try.
	step.FreeWithin(t, h.RemovalLimit(), other, name)
	second := step.Acquire(t, l, name, h.ttl()...)
	err := step.MustReturn(t, step.Limit, "Release", func() error { return <-released })
	t.Logf("Release whose reply was lost = %v", err)
	for range 4 {
		step.Pass(t, h.TTL/2) // Release must have been tried again
		step.WantLive(t, second, other)
	}
	step.Release(t, second)
	step.WantFree(t, other, name)
}

func lostReply(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	other, name := h.OpenLocker(t), step.LockName(t)
	step.WantFree(t, l, name) // and connects
	for range 3 {
		link.Drop(1)
		ctx, cancel := context.WithTimeout(t.Context(), 4*h.short())
		lease, err := step.AcquireContext(t, ctx, l, name, h.ttl()...)
		cancel()
		link.Heal()
		if err != nil {
			t.Logf("Acquire whose reply was lost = %v", err)
			if errors.Is(err, locker.ErrHeld) {
				t.Errorf("Acquire = %v, and nobody has the lock but itself", err)
			}
		} else {
			step.WantLive(t, lease, other)
			step.Release(t, lease)
		}
		step.FreeWithin(t, h.ExpiryLimit(), l, name)
		step.FreeWithin(t, h.Slack, other, name)
	}
}

// forcedRemoval has two rounds. In the first a successor gets the lock before the holder knows of
// the removal. In the second there is no successor until then, and a renewal finds the name free.
func forcedRemoval(t T, h *Harness) {
	for _, atOnce := range []bool{true, false} {
		l, other, third, name := h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
		lease := step.Acquire(t, l, name, h.ttl()...)
		h.Remove(t, name)
		var successor locker.Lease
		if atOnce {
			successor = step.Acquire(t, other, name)
		}
		step.LostWithin(t, h.ExpiryLimit(), lease)
		if !atOnce {
			successor = step.Acquire(t, other, name)
		}
		err := step.MustReturn(t, step.Limit, "Release", func() error { return lease.Release(t.Context()) })
		if !errors.Is(err, locker.ErrLost) {
			t.Errorf("Release of a lease that was taken away = %v, want ErrLost", err)
		}
		// Nothing that the former holder still does may touch its successor.
		step.Pass(t, 4*h.short())
		step.WantLive(t, successor, third)
		step.Release(t, successor)
		step.WantFree(t, third, name)
	}
}

func removalAtOnce(t T, h *Harness) {
	l, name := h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithoutRenewal())
	deadline := lease.Deadline()
	h.Remove(t, name)
	step.LostWithin(t, h.Slack, lease)
	if !deadline.IsZero() && !time.Now().Before(deadline) {
		t.Errorf("Done was closed by the deadline; the Lockers of Open need a longer TTL for this case")
	}
}

func killed(t T, h *Harness) {
	l, name := h.OpenLocker(t), step.LockName(t)
	p := h.Process(t)
	process.MustDo(t, p, process.Command{Verb: process.Acquire, Name: name, TTL: h.TTL})
	waiter := step.StartAcquire(t, l, name)
	h.WaitQueued(t, name, 1)
	waiter.WantPending(t)
	p.Kill()
	step.Release(t, waiter.Granted(t, h.DeathLimit()))
}

func stopped(t T, h *Harness) {
	l, name := h.OpenLocker(t), step.LockName(t)
	p := h.Process(t)
	process.MustDo(t, p, process.Command{Verb: process.Acquire, Name: name})
	waiter := step.StartAcquire(t, l, name)
	p.Stop()
	step.Pass(t, 8*h.short()) // the holder is suspended
	waiter.WantPending(t)
	step.WantHeld(t, l, name)
	p.Continue()
	process.MustDo(t, p, process.Command{Verb: process.Look, Name: name})
	waiter.WantPending(t)
	process.MustDo(t, p, process.Command{Verb: process.Release, Name: name})
	step.Release(t, waiter.Granted(t, h.HandOffLimit()))
}

func sameInstant(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	step.WantFree(t, l, name)
	step.WantFree(t, other, name) // and both connect
	granted := 0
	for i := range h.rounds(50) {
		var mu sync.Mutex
		var leases []locker.Lease
		ask := func(l locker.Locker) func() error {
			return func() error {
				lease, err := tryInBackground(t.Context(), l, name)
				if err != nil {
					if errors.Is(err, locker.ErrHeld) {
						return nil
					}
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				leases = append(leases, lease)
				return nil
			}
		}
		step.Race(t, ask(l), ask(l), ask(other), ask(other))
		if len(leases) > 1 {
			t.Fatalf("in round %d %d acquisitions got the same lock at the same time", i, len(leases))
		}
		for _, lease := range leases {
			step.WantLive(t, lease, other)
			step.Release(t, lease)
			granted++
		}
		step.FreeWithin(t, h.RemovalLimit(), l, name) // the losers' clean-up may take a moment
	}
	if granted == 0 {
		t.Errorf("nobody ever got the lock")
	}
}
