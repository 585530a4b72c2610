package conformance

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/middleware"
)

// Cases J74 to J77: what becomes of the holder, and of its successor.

func breakOfStopped(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	other, operator, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	victim := step.Acquire(t, l, name, h.ttl()...)
	waiter := step.StartAcquire(t, other, name, h.ttl()...)
	h.WaitQueued(t, name, 1)
	waitShown(t, h, operator, victim)
	link.Cut()
	within := takeAway(t, h, operator, victim, someBreach(false))
	// A key of the lock's own has the lease's TTL. The timeout of a session may be unknown to others.
	if most := h.ExpiryLimit() + h.guarantees.Expiry.Slack; h.guarantees.Expiry.By == locker.ExpiryKey && within > most {
		t.Errorf("Break says that the lock is free after %v, and by TTL and slack it is after %v", within, most)
	}
	next := waiter.Granted(t, min(within+h.Slack, h.ExpiryLimit()))
	if victim.Err() == nil { // it reads the clock; a timer may be late
		t.Errorf("the next lease is granted while the holder that hears nothing trusts its own")
	}
	link.Heal()
	for what, err := range map[string]error{"Err": victim.Err(), "Renew": step.Renew(t, victim)} {
		if !errors.Is(err, locker.ErrLost) {
			t.Errorf("%s of the holder, after that = %v, want ErrLost", what, err)
		}
	}
	step.Pass(t, h.TTL) // in which its removal may go on
	step.WantLive(t, next, operator)
	step.Release(t, next)
}

func breakIsShown(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	operator, name := h.OpenLocker(t), step.LockName(t)
	victim := step.Acquire(t, l, name, h.longTTL(locker.WithoutRenewal())...)
	waitShown(t, h, operator, victim)
	if p := wantHolder(t, operator, victim); p.Broken != nil {
		t.Errorf("Inspect shows %+v before anybody breaks anything", p.Broken)
	}
	link.Cut() // so that it doesn't release
	b := someBreach(false)
	deadline := victim.Deadline()
	takeAway(t, h, operator, victim, b)
	wantHeldBefore(t, deadline, operator, name) // nobody waits: the first that asks would get it
	for what, s := range map[string]locker.Status{
		"Inspect": inspect(t, operator, name, 0), "List": list(t, operator, "", 0)[inspect(t, operator, name, 0).Key],
	} {
		switch {
		case s.Holder == nil || s.Holder.Broken == nil:
			t.Errorf("%s shows %s, want a holder that is broken", what, inWords(s))
		case s.Holder.Broken.By != b.By || s.Holder.Broken.Reason != b.Reason || !s.Holder.Broken.At.Equal(b.At):
			t.Errorf("%s shows the Breach %+v, want %+v", what, *s.Holder.Broken, b)
		}
	}
	link.Heal()
	step.Eventually(t, h.RemovalLimit(), func() error {
		if err := step.Renew(t, victim); victim.Err() == nil {
			return fmt.Errorf("renewal of a lease that is taken away = %w", err)
		}
		return nil
	})
	next := step.AcquireWithin(t, h.RemovalLimit(), operator, name)
	if p := wantHolder(t, operator, next); p.Broken != nil {
		t.Errorf("Inspect shows %+v for the next holder", p.Broken)
	}
	step.Release(t, next)
}

func breakAtOnce(t T, h *Harness) {
	l, other, operator, name := h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	victim := step.Acquire(t, l, name, h.longTTL()...)
	left := time.Until(victim.Deadline())
	waiter := step.StartAcquire(t, other, name, h.longTTL()...)
	h.WaitQueued(t, name, 1)
	waitShown(t, h, operator, victim)
	b := someBreach(true)
	takeAway(t, h, operator, victim, b)
	next := waiter.Granted(t, h.HandOffLimit())
	h.wantNext(t, victim.Token(), next.Token())
	limit := h.Slack
	if locker.RevocationAtOnce.Check(h.guarantees) != nil {
		limit += left / 2
	}
	err := step.EndedWithin(t, limit, victim)
	switch {
	case errors.Is(err, locker.ErrBroken):
		wantBreach(t, "Err", err, b)
	case !errors.Is(err, locker.ErrLost):
		t.Errorf("Err = %v, want ErrLost", err)
	default: // the service has no place for a Breach where it has no lease
		t.Logf("lost: %v", err)
	}
	waitShown(t, h, operator, next)
	if _, err := tryBreak(t, operator, name, victim.Token(), b); !errors.Is(err, locker.ErrNotHolder) {
		t.Errorf("Break of a lease that is over = %v, want ErrNotHolder", err)
	}
	step.Close(t, l) // so that its removal is done
	step.WantLive(t, next, operator)
	step.Release(t, next)
	h.WaitNoResidue(t)
}

// breakAtOnceOfSilent first marks the lease, which its holder doesn't see.
func breakAtOnceOfSilent(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	other, operator, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	victim := step.Acquire(t, l, name, h.longTTL()...)
	waiter := step.StartAcquire(t, other, name, h.longTTL()...)
	h.WaitQueued(t, name, 1)
	waitShown(t, h, operator, victim)
	link.Cut()
	takeAway(t, h, operator, victim, someBreach(false))
	waiter.WantPending(t)
	takeAway(t, h, operator, victim, someBreach(true))
	next := waiter.Granted(t, h.HandOffLimit())
	link.Heal()
	step.LostWithin(t, time.Until(victim.Deadline())+h.Slack, victim)
	step.WantLive(t, next, operator)
	step.Release(t, next)
}

func staysBroken(t T, h *Harness) {
	l, other, operator, name := h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	victim := step.Acquire(t, l, name, h.longTTL(locker.WithoutRenewal())...)
	b := someBreach(false)
	waitShown(t, h, operator, victim)
	takeAway(t, h, operator, victim, b)
	again := b
	again.By = "eve@ops-2"
	_, err := tryBreak(t, operator, name, victim.Token(), again)
	released := errors.Is(err, locker.ErrNotHolder) && locker.BreakSeenAtOnce.Check(h.guarantees) == nil
	if err != nil && !released {
		t.Errorf("a second Break = %v, want nil", err)
	}
	wantBreach(t, "Renew", step.Renew(t, victim), b)
	wantBreach(t, "Renew after that", step.Renew(t, victim), b)
	next := step.AcquireWithin(t, h.ExpiryLimit(), other, name)
	wantBreach(t, "Renew when others have the lock", step.Renew(t, victim), b)
	for range 2 {
		wantBreach(t, "Release", step.MustReturn(t, step.Limit, "Release", func() error { return victim.Release(t.Context()) }), b)
	}
	step.Close(t, l) // so that its removal is done
	step.Pass(t, h.TTL)
	step.WantLive(t, next, operator)
	step.Release(t, next)
	h.WaitNoResidue(t)
}

func breakDecorated(t T, h *Harness) {
	const base = 1000
	bare, name := h.OpenLocker(t), step.LockName(t)
	prefixed, err := middleware.Prefix(h.Open(t), step.LockName(t)+"/")
	if err != nil {
		t.Fatalf("%v", err)
	}
	step.CloseAtEnd(t, prefixed)
	based, err := locker.TokenBase(h.Open(t), base)
	if err != nil {
		t.Fatalf("%v", err)
	}
	step.CloseAtEnd(t, based)

	above, below := step.Acquire(t, bare, name, h.ttl()...), step.Acquire(t, prefixed, name, h.ttl()...)
	waitShown(t, h, prefixed, below)
	if _, err := tryBreak(t, prefixed, name, above.Token(), someBreach(true)); !errors.Is(err, locker.ErrNotHolder) {
		t.Errorf("Break below a prefix, with the token of the lock without it = %v, want ErrNotHolder", err)
	}
	b := someBreach(false)
	takeAway(t, h, prefixed, below, b)
	wantBreach(t, "Renew below the prefix", step.Renew(t, below), b)
	step.WantLive(t, above, bare)
	step.Release(t, above)

	lease := step.Acquire(t, based, name, h.ttl()...)
	waitShown(t, h, based, lease)
	if _, err := tryBreak(t, based, name, lease.Token()-base, b); !errors.Is(err, locker.ErrNotHolder) {
		t.Errorf("Break on a token base, with the token without it = %v, want ErrNotHolder", err)
	}
	takeAway(t, h, based, lease, b)
	wantBreach(t, "Renew on the token base", step.Renew(t, lease), b)
}
