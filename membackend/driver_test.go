package membackend_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/membackend"
)

// These tests check the driver against the obligations of package driver, without the engine. The
// network's delay separates the send time of a request from its arrival.

func TestLockRefusesTTLsOutOfBounds(t *testing.T) {
	s := membackend.NewServer()
	site := newSite(t, s)
	for _, d := range []time.Duration{-time.Second, 0, 1, 5*time.Millisecond - 1} {
		_, err := site.Lock(locker.Request{Name: "name", TTL: d}, func(error) {})
		if !errors.Is(err, locker.ErrOption) {
			t.Errorf("Lock with TTL %v = %v, want %v", d, err, locker.ErrOption)
		}
	}
	for _, d := range []time.Duration{5 * time.Millisecond, math.MaxInt64} {
		if l, g := site.held(locker.Request{TTL: d}); g.TTL != d {
			t.Errorf("TTL in force = %v, want %v", g.TTL, d)
		} else {
			mustRelease(t, l)
		}
	}
	wantResidue(t, s, "")
}

func TestGrantBaseIsItsSendTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := newSite(t, membackend.NewServer())
		site.Delay(time.Second, 0)
		sent := driver.Stamp()
		l, g := site.held(locker.Request{})
		if g.Base != sent || g.TTL != ttl || g.Token <= 0 {
			t.Errorf("Acquire = %+v, want base %d, TTL %v and a positive token", g, sent, ttl)
		}
		sent = driver.Stamp()
		if bases, errs := site.renew(l.Lock); errs[0] != nil || bases[0] != sent {
			t.Errorf("Renew = base %d, %v, want base %d", bases[0], errs[0], sent)
		}
		mustRelease(t, l)
	})
}

func TestHandedOverGrantHasTheBaseOfTheLastRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		one, two := newSite(t, s), newSite(t, s)
		first, g1 := one.held(locker.Request{})
		second := two.queued(locker.Request{})
		time.Sleep(ttl / 3)
		two.Delay(time.Second, 0)
		sent := driver.Stamp()
		if bases, errs := two.renew(second.Lock); errs[0] != nil || bases[0] != sent {
			t.Errorf("Renew of a queued lock = base %d, %v, want base %d", bases[0], errs[0], sent)
		}
		time.Sleep(ttl / 4)
		mustRelease(t, first)
		g2, err := second.Acquire(t.Context())
		if err != nil || g2.Base != sent || g2.Token <= g1.Token {
			t.Errorf("Acquire = %+v, %v, want base %d and a token above %d", g2, err, sent, g1.Token)
		}
		mustRelease(t, second)

		first, _ = one.held(locker.Request{})
		second = two.queued(locker.Request{})
		mustRelease(t, first)
		time.Sleep(ttl / 4)
		sent = driver.Stamp() // of a refresh between the push and the call that collects it
		two.renew(second.Lock)
		if g, err := second.Acquire(t.Context()); err != nil || g.Base != sent {
			t.Errorf("Acquire = %+v, %v, want base %d", g, err, sent)
		}
		mustRelease(t, second)
	})
}

// TestLateRefreshCounts: a refresh that is executed after its caller has given up restarts the TTL
// on the service, and the grant's base is its stamp.
func TestLateRefreshCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		one, two := newSite(t, s), newSite(t, s)
		first, _ := one.held(locker.Request{})
		second := two.queued(locker.Request{})
		two.Delay(ttl/3, 0)
		sent := driver.Stamp()
		if _, errs := two.renew(second.Lock); errs[0] == nil || errors.Is(errs[0], locker.ErrLost) {
			t.Errorf("Renew without an answer = %v, want a failure that isn't final", errs[0])
		}
		time.Sleep(ttl / 3)
		mustRelease(t, first)
		if g, err := second.Acquire(t.Context()); err != nil || g.Base != sent {
			t.Errorf("Acquire = %+v, %v, want base %d", g, err, sent)
		}
		two.Delay(0, 0)
		mustRelease(t, second)
	})
}

func TestLostGrantIsFoundByRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		one, two := newSite(t, s), newSite(t, s)
		first, _ := one.held(locker.Request{})
		second := two.queued(locker.Request{})
		two.Cut()
		mustRelease(t, first)
		two.Heal()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if g, err := second.Acquire(ctx); err == nil {
			t.Fatalf("Acquire = %+v, want no grant because its push was lost", g)
		}
		sent := driver.Stamp()
		if bases, errs := two.renew(second.Lock); errs[0] != nil || bases[0] != sent {
			t.Errorf("Renew = base %d, %v, want base %d", bases[0], errs[0], sent)
		}
		if g, err := second.Acquire(t.Context()); err != nil || g.Base != sent {
			t.Errorf("Acquire = %+v, %v, want base %d", g, err, sent)
		}
		mustRelease(t, second)
		wantResidue(t, s, "")
	})
}

func TestRenewTakesManyInOneRequest(t *testing.T) {
	s := membackend.NewServer()
	site := newSite(t, s)
	held, _ := site.held(locker.Request{Name: "held"})
	_, _ = site.held(locker.Request{Name: "queued"})
	queued := site.queued(locker.Request{Name: "queued"})
	taken, _ := site.held(locker.Request{Name: "taken"})
	s.Expire("taken")
	released, _ := site.held(locker.Request{Name: "released"})
	mustRelease(t, released)

	before := s.Requests()
	_, errs := site.renew(held.Lock, taken.Lock, queued.Lock, released.Lock)
	if n := s.Requests() - before; n != 1 {
		t.Errorf("Renew of 4 locks took %d requests, want 1", n)
	}
	for i, lost := range []bool{false, true, false, true} {
		if errors.Is(errs[i], locker.ErrLost) != lost || !lost && errs[i] != nil {
			t.Errorf("Renew of lock %d = %v, want lost: %v", i, errs[i], lost)
		}
	}
	wantResidue(t, s, `"held" is held, and 0 wait; "queued" is held, and 1 wait`)
}

func TestNoWaitLeavesNothing(t *testing.T) {
	s := membackend.NewServer()
	site := newSite(t, s)
	first, _ := site.held(locker.Request{})
	before := s.Requests()
	l := site.lock(locker.Request{NoWait: true})
	if _, err := l.Acquire(t.Context()); !errors.Is(err, locker.ErrHeld) {
		t.Errorf("Acquire with NoWait = %v, want %v", err, locker.ErrHeld)
	}
	mustRelease(t, l)
	if n := s.Requests() - before; n != 1 {
		t.Errorf("a refused NoWait took %d requests, want 1", n)
	}
	wantResidue(t, s, `"name" is held, and 0 wait`)
	mustRelease(t, first)
}
