package conformance

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

var inspectionCases = []Case{
	{ID: "J64", Name: "inspect-shows-the-holder", Run: inspectHolder,
		Needs: locker.InspectionHolder, Probe: true,
		Why: "an operator who looks for the holder of a lock must not be shown a former holder, " +
			"nor an empty hand"},
	{ID: "J64.1", Name: "labels-stay", Run: labelsStay, Needs: locker.InspectionHolder,
		Why: "at night, what a holder says of itself is all that leads from a lock to a machine and " +
			"to a person"},
	{ID: "J64.2", Name: "labels-are-the-leases", Run: labelsApart, Needs: locker.InspectionHolder,
		Why: "one program does many things through one Locker; an operator who reads the label of other " +
			"work takes the lock away from the wrong one"},
	{ID: "J65", Name: "inspect-shows-waiters-in-order", Run: inspectWaiters,
		Needs: locker.InspectionQueue, Probe: true,
		Why: "whoever looks at a queue wants to know how long it is, and who is next"},
	{ID: "J66", Name: "looking-changes-nothing", Run: lookingChangesNothing,
		Needs: locker.InspectionHolder,
		Why: "a program that shows the locks looks all the time, and must not disturb those who " +
			"use the locks"},
	{ID: "J67", Name: "looking-keeps-nobody-alive", Run: lookingKeepsNobody,
		Needs: all(locker.InspectionHolder, locker.RequireTTL), Hooks: []Hook{HookLinked},
		Why: "the lock of a dead holder must end though somebody looks at it, and must be shown " +
			"as free then"},
	{ID: "J68", Name: "list-finds-all", Run: listFindsAll, Needs: locker.InspectionHolder,
		Why: "a lock that a list leaves out is looked for in vain, and one that it shows twice is " +
			"counted twice"},
	{ID: "J69", Name: "list-under-churn", Run: listUnderChurn, Needs: locker.InspectionHolder,
		Why: "a list that is read in pages must not lose a lock because other locks come and go " +
			"in the meantime"},
	{ID: "J70", Name: "inspection-in-the-callers-terms", Run: inspectDecorated,
		Needs: locker.InspectionHolder,
		Why: "below a prefix or a token base, names and tokens that others use would be shown as " +
			"the program's own"},
	{ID: "J71", Name: "inspection-ends", Run: inspectionEnds, Needs: locker.InspectionHolder,
		Why: "a caller that has gone, or that asks for nonsense, must not cost the service a " +
			"request, and a closed Locker must not look at anything"},
	{ID: "J71.1", Name: "inspection-ends-with-its-context", Run: inspectionOfSilence,
		Needs: locker.InspectionHolder, Hooks: []Hook{HookPause},
		Why: "an operator who looks at a service that is in trouble, or takes a lock away there, needs an " +
			"answer in time, also a bad one"},
	{ID: "J71.2", Name: "failed-service-is-no-answer", Run: questionsOfFailed, Hooks: []Hook{HookDown},
		Why: "an operator who is told that a lock is free, or taken away, and whose question nobody has " +
			"heard, starts what must not run twice"},
}

// inspect asks who has the lock called name, and who waits for it.
func inspect(t T, l locker.Locker, name string, waiters int) locker.Status {
	t.Helper()
	return lookAt(t, l, name, locker.Look{Waiters: waiters})
}

// lookAt calls Inspect once, and fails the case unless the answer is about the lock or the slot.
func lookAt(t T, l locker.Locker, name string, at locker.Look) locker.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), step.Limit)
	defer cancel()
	s, err := locker.Inspect(ctx, l, name, at)
	if err != nil {
		t.Fatalf("Inspect(%q, %+v) = %v, want a status", name, at, err)
	}
	if s.Name != name || s.Slot != at.Slot || s.Key == "" {
		t.Errorf("Inspect(%q, %+v) has name %q, slot %d and key %q, want that name and slot, and what the service calls it", name, at, s.Name, s.Slot, s.Key)
	}
	if len(s.Waiters) > at.Waiters || s.Waiting >= 0 && len(s.Waiters) > s.Waiting {
		t.Errorf("Inspect with %d waiters shows %d, of %d", at.Waiters, len(s.Waiters), s.Waiting)
	}
	return s
}

func wantUnheld(t T, l locker.Locker, name, when string) {
	t.Helper()
	wantFreeSlot(t, l, name, 0, when)
}

// wantFreeSlot is wantUnheld for the lock called name, or for a slot of it.
func wantFreeSlot(t T, l locker.Locker, name string, slot int, when string) {
	t.Helper()
	if s := lookAt(t, l, name, locker.Look{Slot: slot, Waiters: 1}); s.Holder != nil || s.Waiting > 0 || len(s.Waiters) > 0 {
		t.Errorf("%s, Inspect of slot %d shows %s, want a free lock", when, slot, inWords(s))
	}
}

// wantHolder fails the case unless Inspect shows the lease, which may be on a slot.
func wantHolder(t T, l locker.Locker, lease locker.Lease) locker.Party {
	t.Helper()
	deadline := lease.Deadline()
	s := lookAt(t, l, lease.Name(), locker.Look{Slot: locker.Slot(lease)})
	left := time.Until(deadline)
	if s.Holder == nil || s.Holder.Token != lease.Token() && s.Holder.Token != 0 {
		t.Fatalf("Inspect shows %s, want the lease with token %v", inWords(s), lease.Token())
	}
	if party := *s.Holder; party.Owner == "" && party.Session == "" {
		t.Errorf("Inspect shows %s, want an owner or a session", inWords(s))
	} else if party.ExpiresIn < 0 || party.ExpiresIn > 0 && party.ExpiresIn < left {
		t.Errorf("Inspect says that others may get in after %v, and the lease's deadline is in %v", party.ExpiresIn, left)
	}
	return *s.Holder
}

// inWords is a Status in words, with what a pointer would hide.
func inWords(s locker.Status) string {
	if s.Holder == nil {
		return fmt.Sprintf("nobody, %d waiting %+v, partial %+v", s.Waiting, s.Waiters, s.Partial)
	}
	return fmt.Sprintf("holder %+v, %d waiting %+v, partial %+v", *s.Holder, s.Waiting, s.Waiters, s.Partial)
}

// identity tells the parties of one lock apart.
func identity(p locker.Party) string { return p.Owner + "/" + p.Session }

func inspectHolder(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	wantUnheld(t, l, name, "of a lock that nobody has had")
	before := time.Now()
	lease := step.Acquire(t, l, name, h.ttl(locker.WithHolder(aHolder))...)
	after := time.Now()
	first := wantLabel(t, h, l, lease, aHolder, "")
	wantAsked(t, first, before, after)
	if most := h.ExpiryLimit(); first.ExpiresIn > most {
		t.Errorf("Inspect says that others may get in after %v, and by TTL and slack they may after %v", first.ExpiresIn, most)
	}
	if again := wantLabel(t, h, other, lease, aHolder, ""); identity(again) != identity(first) {
		t.Errorf("another Locker sees the holder %+v, and its own %+v", again, first)
	}
	for what, at := range map[string]time.Time{"Since": first.Since, "Asked": first.Asked} {
		if !at.IsZero() && (at.Before(before.Add(-h.Slack-time.Second)) || at.After(after.Add(h.Slack+time.Second))) {
			t.Errorf("%s = %v, want a moment from %v to %v", what, at, before, after)
		}
	}
	step.Release(t, lease)
	wantUnheld(t, l, name, "after the release")
	wantUnheld(t, other, name, "after the release")
	next := step.Acquire(t, other, name)
	if second := wantLabel(t, h, l, next, locker.DefaultHolder(), ""); second.Owner != "" && second.Owner == first.Owner {
		t.Errorf("the next holder has the owner %q of the one before", second.Owner)
	}
	step.Release(t, next)
}

func inspectWaiters(t T, h *Harness) {
	const queue = 4
	looker, name := h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, h.OpenLocker(t), name)
	var waiters []*step.Attempt
	var order []string
	for i := range queue {
		waiters = append(waiters, step.StartAcquire(t, h.OpenLocker(t), name))
		h.WaitQueued(t, name, i+1)
		s := inspect(t, looker, name, queue+1)
		if s.Holder == nil || s.Waiting != i+1 || len(s.Waiters) != i+1 {
			t.Fatalf("while %d wait, Inspect shows %s", i+1, inWords(s))
		}
		last := identity(s.Waiters[i])
		if slices.Contains(order, last) || last == identity(*s.Holder) {
			t.Errorf("waiter %d is shown as %+v, in %s: want another one, at the end", i, s.Waiters[i], inWords(s))
		}
		order = append(order, last)
	}
	if s := inspect(t, looker, name, 2); s.Waiting != queue || len(s.Waiters) != 2 {
		t.Errorf("Inspect with 2 waiters of %d shows %s", queue, inWords(s))
	}
	if s := inspect(t, looker, name, math.MaxInt); s.Waiting != queue || len(s.Waiters) != queue {
		t.Errorf("Inspect with all waiters of %d shows %s", queue, inWords(s))
	}
	if s := inspect(t, looker, name, 0); s.Waiting != queue {
		t.Errorf("Inspect without waiters shows %s, want the number of all", inWords(s))
	}
	for i := range waiters {
		shown := inspect(t, looker, name, queue)
		step.Release(t, lease)
		granted := step.FirstGranted(t, step.Limit, waiters)
		lease = waiters[granted].Granted(t, 0)
		waiters = slices.Delete(waiters, granted, granted+1)
		// Where order is promised, the first that was shown is the next that gets the lock.
		now := wantHolder(t, looker, lease)
		if locker.OrderFIFO.Check(h.guarantees) == nil && now.Owner != "" && now.Owner != shown.Waiters[0].Owner {
			t.Errorf("waiter %d gets the lock, and is %+v; shown was %s", i, now, inWords(shown))
		}
	}
	step.Release(t, lease)
	step.Eventually(t, h.RemovalLimit(), func() error { // a minority of servers may be late
		if s := inspect(t, looker, name, 1); s.Holder != nil || s.Waiting > 0 {
			return fmt.Errorf("after the last release Inspect shows %s", inWords(s))
		}
		return nil
	})
}

// look inspects the lock and lists it until stop is set, and returns the number of looks.
func look(ctx context.Context, l locker.Locker, name string, stop *atomic.Bool) error {
	for !stop.Load() {
		if _, err := locker.Inspect(ctx, l, name, locker.Look{Waiters: 3}); err != nil {
			return err
		}
		for _, err := range locker.List(ctx, l, "", 1) {
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func lookingChangesNothing(t T, h *Harness) {
	l, looker, name, free := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t), step.LockName(t)
	step.WantFree(t, l, name) // and connects
	wantUnheld(t, looker, name, "before all")
	ctx, cancel := context.WithTimeout(t.Context(), 2*step.Limit)
	defer cancel()
	var stop atomic.Bool
	last := locker.Token(0)
	step.Race(t,
		func() error { return look(ctx, looker, name, &stop) },
		func() error { return look(ctx, looker, free, &stop) },
		func() error {
			defer stop.Store(true)
			for range h.rounds(50) {
				lease, err := locker.TryAcquire(ctx, l, name)
				if err != nil {
					return fmt.Errorf("TryAcquire of a free lock that is looked at = %w", err)
				}
				if err := h.follows(last, lease.Token()); err != nil {
					return err
				}
				last = lease.Token()
				if err := lease.Release(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	h.WaitNoResidue(t)
}

// lookingKeepsNobody looks without a pause at a holder that is cut off.
func lookingKeepsNobody(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	looker, name := h.OpenLocker(t), step.LockName(t)
	step.Acquire(t, l, name, h.ttl(locker.WithoutRenewal())...)
	link.Cut()
	step.Eventually(t, h.ExpiryLimit(), func() error {
		listed := listedAs(t, looker, inspect(t, looker, name, 0).Key) // a list must not renew anything either
		if s := inspect(t, looker, name, 1); s.Holder != nil {
			return fmt.Errorf("what Inspect shows is %s, want a free lock", inWords(s))
		}
		if listed != "" {
			return fmt.Errorf("what List shows is %s, want nothing of a lock whose holder is dead", listed)
		}
		return nil
	})
	step.WantFree(t, looker, name)
}

// listedAs is what List shows of one lock, in words; "": nothing.
func listedAs(t T, l locker.Locker, key string) (words string) {
	t.Helper()
	for s, err := range locker.List(t.Context(), l, "", 0) {
		if err != nil {
			t.Fatalf("List = %v", err)
		}
		if s.Key == key {
			words = inWords(s)
		}
	}
	return words
}
