package conformance

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/process"
)

var ownershipCases = []Case{
	{ID: "D33", Name: "stale-release-frees-nothing", Run: staleRelease, Needs: locker.RequireTTL,
		Why: "a holder that comes too late must not free its successor's lock: a third one would come in beside it"},
	{ID: "D33.1", Name: "stale-clean-up-frees-nothing", Run: staleCleanUp, Needs: locker.RequireTTL, Hooks: []Hook{HookLinked},
		Why: "what a holder that was cut off sends when it is back must not free its successor's lock"},
	{ID: "D34", Name: "stale-renew-renews-nothing", Run: staleRenew, Needs: locker.RequireTTL,
		Why: "a holder that comes too late must learn it from Renew, and not prolong its successor's lock"},
	{ID: "D34.1", Name: "stale-renewal-on-the-service-is-refused", Run: staleRenewal, Needs: locker.RevocationRenewal, Hooks: []Hook{HookRemove},
		Why: "only the service knows that a lock has changed hands before its time; a renewal that doesn't name its owner succeeds on the successor's lock"},
	{ID: "D35", Name: "retried-release-spares-the-next-lease", Run: retriedRelease, Needs: locker.RequireTTL, Hooks: []Hook{HookLinked},
		Why: "a Release whose reply was lost is sent again; by then the same process may have the lock anew, on the same connection"},
	{ID: "D36", Name: "acquire-with-a-lost-reply", Run: lostReply, Hooks: []Hook{HookLinked},
		Why: "when the reply is lost the lock may be held by a process that doesn't know: it must find out or clean up, not wait for itself"},
	{ID: "D37", Name: "forced-removal-is-learnt", Run: forcedRemoval, Needs: locker.RevocationRenewal, Probe: true, Hooks: []Hook{HookRemove},
		Why: "an operator who takes a lock away must be able to rely on its holder to notice, and to leave the next one alone"},
	{ID: "D37.1", Name: "forced-removal-is-learnt-at-once", Run: removalAtOnce, Needs: locker.RevocationAtOnce, Probe: true, Hooks: []Hook{HookRemove},
		Why: "where the service tells the holder, it must not have to wait for a renewal"},
	{ID: "D38", Name: "killed-holder-frees-the-lock", Run: killed, Hooks: []Hook{HookProcess},
		Why: "kill -9, a crash and a power cut don't call Release; the others must get the lock within the bound that Guarantees name"},
	{ID: "D38.1", Name: "stopped-holder-keeps-the-lock", Run: stopped, Needs: noTTL{}, Hooks: []Hook{HookProcess},
		Why: "where nothing ends a lease by time, a holder that stands still must not find a second one beside it when it goes on"},
	{ID: "D39", Name: "same-instant-different-owners", Run: sameInstant,
		Why: "owners made of host and time collide, and then two acquisitions take each other's lock for their own"},
}

// expired lets the lease of l run out and gives the lock to next. It returns both leases.
func expired(t T, h *Harness, l, next locker.Locker, name string) (stale, successor locker.Lease) {
	t.Helper()
	stale = acquire(t, l, name, h.ttl(locker.WithoutRenewal())...)
	waiter := start(t, next, name)
	_ = lost(t, h.expiry(), stale)
	successor = waiter.granted(t, h.expiry())
	return stale, successor
}

func staleRelease(t T, h *Harness) {
	l, other, third, name := h.open(t), h.open(t), h.open(t), h.name(t)
	stale, successor := expired(t, h, l, other, name)
	for range 2 {
		err := mustReturn(t, hang, "Release", func() error { return stale.Release(t.Context()) })
		if !errors.Is(err, locker.ErrLost) {
			t.Errorf("Release of a lost lease = %v, want ErrLost", err)
		}
		wantLive(t, successor, third)
	}
	shut(t, l)
	wantLive(t, successor, third)
	release(t, successor)
	wantFree(t, third, name)
}

// staleCleanUp shuts the stale Locker in the end, because Close returns only when its clean-ups are done.
func staleCleanUp(t T, h *Harness) {
	other, third, name := h.open(t), h.open(t), h.name(t)
	l, link := h.linked(t)
	stale := acquire(t, l, name, h.ttl()...)
	link.Cut()
	waiter := start(t, other, name)
	_ = lost(t, h.expiry(), stale)
	successor := waiter.granted(t, h.expiry())
	link.Heal()
	if err := mustReturn(t, hang, "Release", func() error { return stale.Release(t.Context()) }); !errors.Is(err, locker.ErrLost) {
		t.Errorf("Release of a lost lease = %v, want ErrLost", err)
	}
	shut(t, l)
	wantLive(t, successor, third)
	release(t, successor)
	wantFree(t, third, name)
}

func staleRenew(t T, h *Harness) {
	l, other, third, name := h.open(t), h.open(t), h.open(t), h.name(t)
	stale, successor := expired(t, h, l, other, name)
	if err := renew(t, stale); !errors.Is(err, locker.ErrLost) {
		t.Errorf("Renew of a lost lease = %v, want ErrLost", err)
	}
	if err := stale.Err(); !errors.Is(err, locker.ErrLost) {
		t.Errorf("Err after that = %v, want ErrLost: a lost lease never comes back", err)
	}
	wantLive(t, successor, third)
	release(t, successor)
	wantFree(t, third, name)
}

func staleRenewal(t T, h *Harness) {
	l, other, third, name := h.open(t), h.open(t), h.open(t), h.name(t)
	stale := acquire(t, l, name)
	h.Remove(t, name)
	successor := acquire(t, other, name)
	if err := renew(t, stale); !errors.Is(err, locker.ErrLost) {
		t.Errorf("Renew of a lock that somebody else has = %v, want ErrLost", err)
	}
	_ = lost(t, h.slack(), stale)
	shut(t, l) // so that its clean-up is done
	wantLive(t, successor, third)
	release(t, successor)
	wantFree(t, third, name)
}

func retriedRelease(t T, h *Harness) {
	l, link := h.linked(t)
	other, name := h.open(t), h.name(t)
	first := acquire(t, l, name, h.ttl()...)
	link.Drop(1)
	released := make(chan error, 1)
	go func() { released <- first.Release(context.Background()) }()
	freeWithin(t, h.slack(), other, name) // so the service has carried it out
	second := acquire(t, l, name, h.ttl()...)
	err := mustReturn(t, hang, "Release", func() error { return <-released })
	t.Logf("Release whose reply was lost = %v", err)
	for range 4 {
		pass(t, h.TTL/2, "Release must have been tried again")
		wantLive(t, second, other)
	}
	release(t, second)
	wantFree(t, other, name)
}

func lostReply(t T, h *Harness) {
	l, link := h.linked(t)
	other, name := h.open(t), h.name(t)
	wantFree(t, l, name) // and connects
	for range 3 {
		link.Drop(1)
		ctx, cancel := context.WithTimeout(t.Context(), 4*h.short())
		lease, err := ask(t, ctx, l, name, h.ttl()...)
		cancel()
		link.Heal()
		if err != nil {
			t.Logf("Acquire whose reply was lost = %v", err)
			if errors.Is(err, locker.ErrHeld) {
				t.Errorf("Acquire = %v, and nobody has the lock but itself", err)
			}
		} else {
			wantLive(t, lease, other)
			release(t, lease)
		}
		freeWithin(t, h.expiry(), l, name)
		freeWithin(t, h.slack(), other, name)
	}
}

// forcedRemoval is done twice: with a successor that has the lock before the holder knows, and with none until then,
// when a renewal would find the name free.
func forcedRemoval(t T, h *Harness) {
	for _, atOnce := range []bool{true, false} {
		l, other, third, name := h.open(t), h.open(t), h.open(t), h.name(t)
		lease := acquire(t, l, name, h.ttl()...)
		h.Remove(t, name)
		var successor locker.Lease
		if atOnce {
			successor = acquire(t, other, name)
		}
		t.Logf("the holder was told: %v", lost(t, h.expiry(), lease))
		if !atOnce {
			successor = acquire(t, other, name)
		}
		err := mustReturn(t, hang, "Release", func() error { return lease.Release(t.Context()) })
		if !errors.Is(err, locker.ErrLost) {
			t.Errorf("Release of a lease that was taken away = %v, want ErrLost", err)
		}
		pass(t, 4*h.short(), "whatever the former holder still does must leave its successor alone")
		wantLive(t, successor, third)
		release(t, successor)
		wantFree(t, third, name)
	}
}

func removalAtOnce(t T, h *Harness) {
	l, name := h.open(t), h.name(t)
	lease := acquire(t, l, name, locker.WithoutRenewal())
	deadline := lease.Deadline()
	h.Remove(t, name)
	_ = lost(t, h.slack(), lease)
	if !deadline.IsZero() && !time.Now().Before(deadline) {
		t.Errorf("Done was closed by the deadline; the Lockers of Open need a longer TTL for this case")
	}
}

func killed(t T, h *Harness) {
	l, name := h.open(t), h.name(t)
	p := h.Process(t)
	process.MustDo(t, p, process.Command{Verb: process.Acquire, Name: name, TTL: h.TTL})
	waiter := start(t, l, name)
	h.queued(t, name, 1)
	waiter.pending(t)
	p.Kill()
	release(t, waiter.granted(t, h.death()))
}

func stopped(t T, h *Harness) {
	l, name := h.open(t), h.name(t)
	p := h.Process(t)
	process.MustDo(t, p, process.Command{Verb: process.Acquire, Name: name})
	waiter := start(t, l, name)
	p.Stop()
	pass(t, 8*h.short(), "the holder stands still")
	waiter.pending(t)
	wantHeld(t, l, name)
	p.Continue()
	process.MustDo(t, p, process.Command{Verb: process.Look, Name: name})
	waiter.pending(t)
	process.MustDo(t, p, process.Command{Verb: process.Release, Name: name})
	release(t, waiter.granted(t, h.handOff()))
}

func sameInstant(t T, h *Harness) {
	l, other, name := h.open(t), h.open(t), h.name(t)
	wantFree(t, l, name)
	wantFree(t, other, name) // and both connect
	granted := 0
	for i := range h.rounds(50) {
		var mu sync.Mutex
		var leases []locker.Lease
		contend := func(l locker.Locker) func() error {
			return func() error {
				lease, err := tryBeside(t.Context(), l, name)
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
		race(t, contend(l), contend(l), contend(other), contend(other))
		if len(leases) > 1 {
			t.Fatalf("in round %d %d acquisitions got the same lock at the same time", i, len(leases))
		}
		for _, lease := range leases {
			wantLive(t, lease, other)
			release(t, lease)
			granted++
		}
		freeWithin(t, h.removal(), l, name) // the losers' clean-up may take a moment
	}
	if granted == 0 {
		t.Errorf("nobody ever got the lock")
	}
}
