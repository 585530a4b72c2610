package conformance

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

var breakCases = []Case{
	{ID: "J72", Name: "a-broken-lease-is-lost-first", Run: brokenIsLostFirst, Needs: locker.BreakSeenAtRenewal, Probe: true,
		Why: "an operator who takes a lock away must not make two holders of one, and the holder " +
			"must learn who did it and why"},
	{ID: "J72.1", Name: "a-broken-lock-is-handed-over", Run: brokenIsHandedOver,
		Needs: all(locker.BreakSeenAtRenewal, locker.RequireTTL),
		Why: "a holder that lives releases what is taken away from it, so nobody waits for the " +
			"end of a long TTL"},
	{ID: "J72.2", Name: "a-break-is-seen-at-once", Run: breakIsSeenAtOnce, Needs: locker.BreakSeenAtOnce, Probe: true,
		Why: "an operator who is told that a holder learns of it at once doesn't wait for a third " +
			"of the TTL"},
	{ID: "J73", Name: "break-needs-the-token", Run: breakNeedsTheToken, Needs: locker.BreakSeenAtRenewal,
		Why: "the lock may pass on between a look and a break, and its next holder has done " +
			"nothing wrong"},
	{ID: "J73.1", Name: "break-refuses-nonsense", Run: breakRefuses, Needs: locker.BreakSeenAtRenewal,
		Why: "a caller that has gone, or that asks for nonsense, must not take anything away from " +
			"anybody"},
	{ID: "J73.2", Name: "break-in-steps-spares-the-next-holder", Run: breakInSteps, Needs: locker.BreakSeenAtRenewal,
		Hooks: []Hook{HookLinked},
		Why: "a break that looks who has the lock, and then takes it away, takes it from the next " +
			"holder when the lock passes on in between"},
	{ID: "J73.3", Name: "break-of-odd-names", Run: breakOfOddNames, Needs: locker.BreakSeenAtRenewal,
		Why: "a break that maps names in another way than the acquisition takes the lock of another name " +
			"away, or can't take this one away when it must"},
	{ID: "J74", Name: "break-of-a-stopped-holder", Run: breakOfStopped,
		Needs: all(locker.BreakSeenAtRenewal, locker.RequireTTL), Hooks: []Hook{HookLinked},
		Why: "a holder that hears nothing trusts its lease until the deadline: until then nobody " +
			"may get in, and not much later somebody must"},
	{ID: "J74.1", Name: "inspect-shows-a-break", Run: breakIsShown,
		Needs: all(locker.BreakSeenAtRenewal, locker.InspectionHolder, locker.RequireTTL), Hooks: []Hook{HookLinked},
		Why: "the next operator must see that the lock is being taken away already, by whom and why, " +
			"and until the holder's deadline a lock that is marked is no free lock"},
	{ID: "J74.2", Name: "a-mark-spares-the-renewals-of-others", Run: markAmongMany,
		Needs: all(locker.BreakSeenAtRenewal, locker.RequireTTL), Hooks: []Hook{HookLinked},
		Why: "leases are renewed together; if a mark stops the renewal of those after it, their holders " +
			"trust leases that the service lets expire"},
	{ID: "J75", Name: "break-at-once", Run: breakAtOnce, Needs: locker.BreakSeenAtRenewal,
		Why: "a holder that doesn't stop must not keep the others out for as long as it likes"},
	{ID: "J75.1", Name: "break-at-once-of-a-silent-holder", Run: breakAtOnceOfSilent,
		Needs: all(locker.BreakSeenAtRenewal, locker.RequireTTL), Hooks: []Hook{HookLinked},
		Why: "for a holder that is known to be dead nobody has to wait until a long TTL is over"},
	{ID: "J75.2", Name: "break-at-once-spares-other-leases", Run: breakSparesOthers, Needs: locker.BreakSeenAtRenewal,
		Why: "an operator who ends one lease of a process, and isn't told of the others, takes locks " +
			"away from work that nothing is wrong with"},
	{ID: "J75.3", Name: "nobody-has-a-lock-after-a-break-at-once", Run: nobodyAfterBreak, Needs: locker.BreakSeenAtRenewal,
		Why: "a program that asks for the current token to find out whether a holder is still there must " +
			"not be shown one whose lease was taken away"},
	{ID: "J75.4", Name: "break-at-once-keeps-the-queue", Run: breakKeepsQueue, Needs: locker.BreakSeenAtRenewal,
		Why: "those who wait have done nothing wrong; who loses its place when somebody else's lease is " +
			"taken away waits for much longer, or for ever"},
	{ID: "J76", Name: "a-broken-lease-stays-broken", Run: staysBroken, Needs: locker.BreakSeenAtRenewal,
		Why: "a renewal or a late release of the victim must neither revive its lease nor touch " +
			"the successor's"},
	{ID: "J76.1", Name: "a-broken-lease-stays-broken-over-a-restart", Run: markOverRestart,
		Needs: all(locker.BreakSeenAtRenewal, locker.RestartLeases), Hooks: []Hook{HookLinked, HookRestart},
		Why: "a lease that was taken away must not come back with the service, because the operator " +
			"has seen that it worked, and doesn't look again"},
	{ID: "J77", Name: "break-in-the-callers-terms", Run: breakDecorated, Needs: locker.BreakSeenAtRenewal,
		Why: "below a prefix or a token base, a name or a token that is taken as it is belongs to " +
			"somebody else's lock"},
}

// brokenIsLostFirst leaves out holders that have reached their deadline before their renewal had an
// answer: the machine may stand still for as long as that. Most must not.
func brokenIsLostFirst(t T, h *Harness) {
	l, other, operator, name := h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	late, rounds := 0, h.rounds(50)
	for i := range rounds {
		victim := step.Acquire(t, l, name, h.ttl()...)
		var waiter *step.Attempt
		if i%2 == 0 {
			waiter = step.StartAcquire(t, other, name, h.ttl()...)
			h.WaitQueued(t, name, 1)
		}
		b := someBreach(false)
		b.By, b.Reason = special(locker.MaxHolder), special(locker.MaxReason)
		waitShown(t, h, operator, victim)
		takeAway(t, h, operator, victim, b)
		if waiter == nil { // nobody was there when it was broken
			waiter = step.StartAcquire(t, other, name, h.ttl()...)
		}
		next := waiter.Granted(t, h.ExpiryLimit())
		switch err := victim.Err(); locker.LossOf(err) {
		case "": // Err reads the clock, and a timer may be late
			t.Fatalf("the next lease is granted while the lease that was taken away has Err = %v", err)
		case locker.LossBroken, locker.LossRevoked:
			wantBreach(t, "Err", err, b)
		default:
			late++
			t.Logf("%v", err)
		}
		h.wantNext(t, victim.Token(), next.Token())
		step.Release(t, next)
		if t.Failed() {
			return
		}
	}
	if late > rounds/2 {
		t.Errorf("%d of %d holders have learnt nothing before their deadline", late, rounds)
	}
	h.WaitNoResidue(t)
}

// brokenIsHandedOver takes away a lease with a TTL that is much longer than a third of it. Then it
// takes away the next lease, which had waited.
func brokenIsHandedOver(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	victim := step.Acquire(t, l, name, h.longTTL()...)
	left := time.Until(victim.Deadline())
	waiter := step.StartAcquire(t, other, name, h.longTTL()...)
	h.WaitQueued(t, name, 1)
	b := someBreach(false)
	waitShown(t, h, other, victim)
	takeAway(t, h, other, victim, b)
	next := waiter.Granted(t, left/2+h.HandOffLimit())
	wantBreach(t, "Err", victim.Err(), b)

	// The mark has ended with the victim's lease.
	if err := step.Renew(t, next); err != nil {
		t.Errorf("Renew of the next lease = %v, want nil: it is the lease before it that was taken away", err)
	}
	step.WantLive(t, next, l)
	left = time.Until(next.Deadline())
	waitShown(t, h, l, next)
	b = someBreach(false)
	takeAway(t, h, l, next, b)
	wantBreach(t, "Err of a lease that had waited", step.EndedWithin(t, left/2+h.Slack, next), b)
	step.FreeWithin(t, h.HandOffLimit(), l, name)
}

func breakIsSeenAtOnce(t T, h *Harness) {
	l, operator, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	for range 2 {
		victim := step.Acquire(t, l, name, locker.WithoutRenewal()) // a renewal that comes soon would see it as well
		step.Pass(t, h.Settle)
		b := someBreach(false)
		waitShown(t, h, operator, victim)
		takeAway(t, h, operator, victim, b)
		wantBreach(t, "Err", step.EndedWithin(t, h.Slack, victim), b)
		step.FreeWithin(t, h.HandOffLimit(), operator, name)
	}
}

func breakNeedsTheToken(t T, h *Harness) {
	l, operator, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	former := step.Acquire(t, l, name)
	step.Release(t, former)
	refused := func(token locker.Token) {
		t.Helper()
		for _, atOnce := range []bool{false, true} {
			if effect, err := tryBreak(t, operator, name, token, someBreach(atOnce)); !errors.Is(err, locker.ErrNotHolder) || effect != (locker.Effect{}) {
				t.Errorf("Break with token %v (at once: %v) = %+v, %v, want ErrNotHolder", token, atOnce, effect, err)
			}
		}
	}
	refused(former.Token()) // of a free lock
	foreign, lease := step.Acquire(t, l, step.LockName(t), h.ttl()...), step.Acquire(t, l, name, h.ttl()...)
	waitShown(t, h, operator, lease)
	for _, token := range []locker.Token{former.Token(), foreign.Token(), lease.Token() - 1, lease.Token() + 1} {
		refused(token)
	}
	step.Pass(t, h.TTL) // and some renewals
	step.WantLive(t, lease, operator)
	step.WantLive(t, foreign, operator)
	step.Release(t, lease)
	step.Release(t, foreign)
}

func breakRefuses(t T, h *Harness) {
	l, operator, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name, h.ttl()...)
	cause := errors.New("nobody wants it any more")
	over, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := locker.Break(over, operator, name, lease.Token(), someBreach(true)); !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
		t.Errorf("Break with a context that is over = %v, want its error and cause", err)
	}
	long := someBreach(true)
	long.Reason = strings.Repeat("x", locker.MaxReason+1)
	wrong := someBreach(true)
	wrong.Slot = locker.MaxPermits + 1
	for what, err := range map[string]error{
		"no token":                  second(tryBreak(t, operator, name, 0, someBreach(true))),
		"a reason that is too long": second(tryBreak(t, operator, name, lease.Token(), long)),
		"a slot that can't be":      second(tryBreak(t, operator, name, lease.Token(), wrong)),
	} {
		if !errors.Is(err, locker.ErrOption) {
			t.Errorf("Break with %s = %v, want ErrOption", what, err)
		}
	}
	for _, bad := range []string{"", "a\n", strings.Repeat("x", locker.MaxName+1)} {
		if _, err := tryBreak(t, operator, bad, lease.Token(), someBreach(true)); !errors.Is(err, locker.ErrName) {
			t.Errorf("Break(%q) = %v, want ErrName", bad, err)
		}
	}
	step.Close(t, operator)
	_, err := tryBreak(t, operator, name, lease.Token(), someBreach(true))
	var e *locker.Error
	if !errors.Is(err, locker.ErrClosed) || !errors.As(err, &e) || e.Op != "break" || e.Name != name {
		t.Errorf("Break of a Locker that is closed = %v, want ErrClosed, and what was tried", err)
	}
	step.Pass(t, h.TTL)
	step.WantLive(t, lease, l)
	step.Release(t, lease)
}

func second(_ locker.Effect, err error) error { return err }
