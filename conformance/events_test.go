package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// TestMemObserved runs the suite with an observer on each Locker, which checks the events.
func TestMemObserved(t *testing.T) {
	h := memHarness(plain)
	h.Observe = true
	conformance.Run(t, inBubbles(h))
}

// TestEventsThatAreWrong changes the events of Lockers on their way to the observer, which must find
// that.
func TestEventsThatAreWrong(t *testing.T) {
	only := func(kind locker.EventKind, change func(e *locker.Event)) func(locker.Event) []locker.Event {
		return func(e locker.Event) []locker.Event {
			if e.Kind == kind {
				change(&e)
			}
			return []locker.Event{e}
		}
	}
	changes := map[string]func(locker.Event) []locker.Event{
		"":               func(e locker.Event) []locker.Event { return []locker.Event{e} },
		"another token":  only(locker.EventReleased, func(e *locker.Event) { e.Token++ }),
		"no token":       only(locker.EventGranted, func(e *locker.Event) { e.Token = 0 }),
		"another name":   only(locker.EventReleased, func(e *locker.Event) { e.Name += "x" }),
		"no contention":  only(locker.EventGranted, func(e *locker.Event) { e.Contended = false }),
		"no cause":       only(locker.EventRefused, func(e *locker.Event) { e.Cause = nil }),
		"no loss":        only(locker.EventLost, func(e *locker.Event) { e.Cause = errors.New("cause") }),
		"no count":       only(locker.EventRenewalFailed, func(e *locker.Event) { e.Tries = 0 }),
		"a failure":      only(locker.EventRenewed, func(e *locker.Event) { e.Cause = errors.New("cause") }),
		"another id":     only(locker.EventReleased, func(e *locker.Event) { e.ID += 100 }),
		"lost, released": only(locker.EventLost, func(e *locker.Event) { e.Kind = locker.EventReleased }),
		"unknown":        only(locker.EventRenewed, func(e *locker.Event) { e.Kind = 1 << 30 }),
		"at the end": func(e locker.Event) []locker.Event {
			if e.Kind == locker.EventReleased {
				late := e
				late.Kind, late.Held = locker.EventRenewed, 0
				return []locker.Event{e, late}
			}
			return []locker.Event{e}
		},
	}
	for kind := locker.EventWaiting; kind <= locker.EventClosed; kind <<= 1 {
		if kind&(locker.EventRequeued|locker.EventAbandoned|locker.EventRemoving|locker.EventRemoved) != 0 {
			continue // they don't happen here
		}
		changes["twice "+kind.String()] = func(e locker.Event) []locker.Event {
			if e.Kind == kind {
				return []locker.Event{e, e}
			}
			return []locker.Event{e}
		}
		if kind == locker.EventClosed {
			continue // without it, an end may be missing
		}
		changes["no "+kind.String()] = func(e locker.Event) []locker.Event {
			if e.Kind == kind {
				return nil
			}
			return []locker.Event{e}
		}
	}
	for what, change := range changes {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := memHarness(func() func(locker.Locker) locker.Locker {
					return func(l locker.Locker) locker.Locker { return tampered{l, change} }
				})
				h.Observe = true
				c := conformance.Case{ID: "X1", Name: "events", Run: allKinds}
				err := conformance.Evaluate(t.Context(), h, []conformance.Case{c}, func(r conformance.Result) {
					if want := what != ""; (r.Verdict == conformance.Failed) != want {
						t.Errorf("verdict %v, want a failure: %v; log:\n%s", r.Verdict, want, r.Log)
					}
				})
				if err != nil && what == "" {
					t.Error(err)
				}
			})
		})
	}
}

// A Locker that can't be observed isn't passed over.
func TestObserveNeedsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := memHarness(onLease(func(l locker.Lease) locker.Lease { return l })) // it hides what is below
		h.Observe = true
		c := conformance.Case{ID: "X1", Name: "events", Run: func(t conformance.T, h *conformance.Harness) { h.OpenLocker(t) }}
		err := conformance.Evaluate(t.Context(), h, []conformance.Case{c}, func(conformance.Result) {})
		if err == nil || !strings.Contains(err.Error(), "each Locker must say what it does") {
			t.Errorf("Evaluate = %v, want that nothing is observed", err)
		}
	})
}

// tampered changes the events of a Locker.
type tampered struct {
	locker.Locker
	change func(locker.Event) []locker.Event
}

func (l tampered) Observe(o locker.Observer, kinds locker.EventKind) (stop func(), err error) {
	return locker.Observe(l.Locker, tamperedObserver{o, l.change}, kinds)
}

func (l tampered) Stats() (locker.Stats, bool)        { return locker.StatsOf(l.Locker) }
func (l tampered) Leases() ([]locker.LeaseInfo, bool) { return locker.Leases(l.Locker) }

type tamperedObserver struct {
	locker.Observer
	change func(locker.Event) []locker.Event
}

func (o tamperedObserver) Observe(ctx context.Context, e locker.Event) {
	for _, e := range o.change(e) {
		o.Observer.Observe(ctx, e)
	}
}

// allKinds has most kinds of events happen.
func allKinds(t conformance.T, h *conformance.Harness) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v", err)
		}
	}
	ctx := context.Background()
	l := h.OpenLocker(t)
	lease, err := l.Acquire(ctx, "name")
	must(err)
	brief, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if _, err := l.Acquire(brief, "name"); !errors.Is(err, locker.ErrHeld) {
		t.Fatalf("Acquire of a lock that is held = %v", err)
	}
	granted := make(chan error)
	go func() {
		lease, err := l.Acquire(ctx, "name")
		if err == nil {
			h.Remove(t, "name")
			<-lease.Done()
			err = lease.Err()
		}
		granted <- err
	}()
	synctest.Wait()
	must(lease.Renew(ctx))
	h.Down(t)
	if lease.Renew(ctx) == nil {
		t.Fatalf("Renew = nil of a service that is down")
	}
	h.Up(t)
	must(lease.Release(ctx))
	if err := <-granted; !errors.Is(err, locker.ErrLost) {
		t.Fatalf("the waiter's lease ended with %v", err)
	}
	for i := range 3 {
		lease, err := l.Acquire(ctx, fmt.Sprint(i))
		must(err)
		time.Sleep(time.Minute) // in a bubble, where it takes no time: renewals are among the kinds
		must(lease.Release(ctx))
	}
}
