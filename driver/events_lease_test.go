package driver_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

func TestObserveRenewals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var fails atomic.Bool
		f := &fake{renew: func(context.Context, *fakeLock) (driver.Instant, error) {
			base := driver.Stamp()
			time.Sleep(time.Second)
			if fails.Load() {
				return 0, errService
			}
			return base, nil
		}}
		l := open(t, f)
		w := watch(t, l)
		lease := mustAcquire(t, l, "name")
		w.wants(t, ofLease(locker.EventGranted, 1))
		time.Sleep(time.Second)
		if err := lease.Renew(callerContext(t)); err != nil {
			t.Fatalf("Renew = %v", err)
		}
		w.wants(t, ofLease(locker.EventRenewed, 1, took(time.Second), left(validity-2*time.Second)))

		fails.Store(true)
		_ = lease.Renew(callerContext(t))
		_ = lease.Renew(callerContext(t))
		failed := func(n int, leaves time.Duration) locker.Event {
			return ofLease(locker.EventRenewalFailed, 1, took(time.Second), left(leaves), tries(n), because(errService))
		}
		base := validity - time.Second // since the renewal was sent, which is the new base
		w.wants(t, failed(1, base-time.Second), failed(2, base-2*time.Second))

		fails.Store(false)
		for {
			time.Sleep(time.Second)
			if events := w.take(); len(events) > 0 { // one in the background
				e := events[0]
				if e.Kind != locker.EventRenewed || e.Took != time.Second || e.Tries != 0 || e.Left <= 0 || e.Left > base-2*time.Second {
					t.Errorf("the event is %+v", e.Event)
				}
				break
			}
		}
		fails.Store(true)
		_ = lease.Renew(callerContext(t))
		if events := w.take(); len(events) == 0 || events[len(events)-1].Tries != 1 {
			t.Errorf("the events are %+v, want one of a first failure", events)
		}
		if s := statsOf(t, l); s.Renewed != 2 || s.RenewalsFailed != 3 {
			t.Errorf("Stats = %+v", s)
		}
	})
}

// Renewals of a place in the queue are not renewals of a lease.
func TestObserveNoRenewalsOfAWaiter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: queues(nil)}
		l := open(t, f)
		w := watch(t, l)
		start(t, l, "name").waits()
		time.Sleep(ttl)
		if len(f.renewed()) == 0 {
			t.Fatal("there was no renewal")
		}
		w.wants(t, locker.Event{Kind: locker.EventWaiting, ID: 1})
	})
}

// A renewal that began while the lock was queued moves no deadline of the lease. But it may have failed.
func TestObserveARenewalThatPredatesTheGrant(t *testing.T) {
	for _, answer := range []error{nil, errService} {
		bubble(t, func(t *testing.T) {
			grants := make(chan func(*fakeLock) driver.Grant)
			f := &fake{acquire: queues(grants), renew: func(context.Context, *fakeLock) (driver.Instant, error) {
				base := driver.Stamp()
				time.Sleep(2 * time.Second)
				return base, answer
			}}
			l := open(t, f)
			w := new(watcher)
			attach(t, l, w, locker.EventRenewed|locker.EventRenewalFailed)
			p := start(t, l, "name")
			p.waits()
			for len(f.renewed()) == 0 {
				time.Sleep(time.Second / 10)
			}
			time.Sleep(time.Second)
			grants <- grant
			_ = p.granted()
			time.Sleep(time.Second)
			events := w.take()
			if answer == nil && len(events) != 0 || answer != nil && (len(events) != 1 || events[0].Tries != 1) {
				t.Errorf("the renewal returned %v, and the events are %+v", answer, events)
			}
		})
	}
}

func TestObserveLosses(t *testing.T) {
	fails := func(context.Context, *fakeLock) (driver.Instant, error) { return 0, errService }
	proves := func(context.Context, *fakeLock) (driver.Instant, error) { return driver.Stamp().Add(-time.Hour), nil }
	hangs := func(ctx context.Context, _ *fakeLock) (driver.Instant, error) {
		time.Sleep(ttl) // ignores its context
		return driver.Stamp(), nil
	}
	for _, tc := range []struct {
		loss  string
		renew func(context.Context, *fakeLock) (driver.Instant, error)
		opts  []locker.Option
		after time.Duration
		does  func(f *fake)
		cause error
	}{
		{"service_failed", fails, nil, validity, nil, errService},
		{"service_silent", hangs, nil, validity, nil, nil},
		{"unproven", proves, nil, validity, nil, nil},
		{"not_renewed", nil, []locker.Option{locker.WithoutRenewal()}, validity, nil, nil},
		{"process_late", nil, nil, 0, func(*fake) { driver.Suspend(time.Hour) }, nil},
		{"revoked", nil, nil, 0, func(f *fake) { f.tell(0, errRevoked) }, errRevoked},
		{"revoked", nil, nil, 0, func(f *fake) { f.tell(0, nil) }, nil},
		{"revoked", nil, nil, 0, func(f *fake) { f.tell(0, locker.ErrLost) }, nil},
		{"max_hold", nil, []locker.Option{locker.WithMaxHold(time.Second)}, time.Second, nil, locker.ErrMaxHold},
	} {
		t.Run(tc.loss, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := &fake{renew: tc.renew}
				l := open(t, f)
				w := new(watcher)
				attach(t, l, w, locker.EventLost|locker.EventReleased)
				lease := mustAcquire(t, l, "name", tc.opts...)
				at := driver.Stamp()
				if tc.does != nil {
					tc.does(f)
				}
				if tc.after > 0 {
					<-lease.Done()
				}
				err := lease.Err()
				matches(t, "Err", err, locker.ErrLost)
				lasted := driver.Stamp().Sub(at)
				if tc.after > 0 && lasted != tc.after {
					t.Errorf("it lasted for %v, want %v", lasted, tc.after)
				}
				_ = lease.Release(t.Context())
				if tc.cause == nil {
					tc.cause = locker.ErrLost
				}
				events := w.wants(t, ofLease(locker.EventLost, 1, held(lasted), because(tc.cause)))
				for what, got := range map[string]string{"Err": locker.LossOf(err), "event": locker.LossOf(events[0].Cause)} {
					if got != tc.loss {
						t.Errorf("LossOf of the %s, %v, is %q, want %q", what, err, got, tc.loss)
					}
				}
				time.Sleep(ttl) // a renewal may be under way
				if s := statsOf(t, l); s.Lost[tc.loss] != 1 || len(s.Lost) != 1 || s.Released != 0 || s.Held != 0 {
					t.Errorf("Stats = %+v", s)
				}
			})
		})
	}
}

func TestObserveRemovals(t *testing.T) {
	partial, pending := &driver.PartialReleaseError{Err: errService}, &driver.PartialReleaseError{Err: errService, Pending: true}
	var (
		failed   = func(n int) locker.Event { return ofLease(locker.EventRemoving, 1, tries(n), because(errService)) }
		released = ofLease(locker.EventReleased, 1, held(time.Second))
		removed  = ofLease(locker.EventRemoved, 1)
		lost     = ofLease(locker.EventLost, 1, held(time.Second), because(errRevoked))
	)
	for _, tc := range []struct {
		name    string
		answers []error // of the first calls of Release
		loses   bool
		want    []locker.Event
	}{
		{"released", nil, false, []locker.Event{released}},
		{"released late", []error{errService, errService}, false, []locker.Event{failed(1), failed(2), released}},
		{"released, and something is left", []error{partial, partial}, false, []locker.Event{released, failed(1), failed(2), removed}},
		{"released late, and something is left", []error{errService, partial}, false, []locker.Event{failed(1), released, failed(2), removed}},
		{"released, and answers are to come", []error{pending, pending}, false, []locker.Event{released}},
		{"released, and an answer is a failure", []error{pending, partial, pending}, false, []locker.Event{released, failed(1), removed}},
		{"released late, and answers are to come", []error{errService, pending}, false, []locker.Event{failed(1), released, removed}},
		{"lost", nil, true, []locker.Event{lost}},
		{"lost, and answers are to come", []error{pending}, true, []locker.Event{lost}},
		{"lost, and an answer is a failure", []error{pending, errService, pending}, true, []locker.Event{lost, failed(1), removed}},
		{"lost, and removed late", []error{errService}, true, []locker.Event{lost, failed(1), removed}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := &fake{release: func(_ context.Context, l *fakeLock) error {
					if n := l.count(&l.releases); n <= len(tc.answers) {
						return tc.answers[n-1]
					}
					return nil
				}}
				l := open(t, f)
				lease := mustAcquire(t, l, "name")
				w := watch(t, l) // after the grant: it has the events from now on
				time.Sleep(time.Second)
				ended := driver.Stamp()
				if tc.loses {
					f.tell(0, errRevoked)
				} else {
					_ = lease.Release(t.Context())
				}
				time.Sleep(time.Minute)
				events := w.take()
				if len(events) != len(tc.want) {
					t.Fatalf("the events are %+v, want %+v", events, tc.want)
				}
				for i, e := range events {
					if e.Took > 0 && e.Took >= driver.Stamp().Sub(ended) || e.Took == 0 && i > 0 && (e.Kind&(locker.EventRemoved|locker.EventReleased) != 0) {
						t.Errorf("%v took %v", e.Kind, e.Took)
					}
					e.Took = 0 // it has jitter
					w.events = append(w.events, e)
				}
				w.wants(t, tc.want...)
				failures := 0
				for _, answer := range tc.answers {
					if !errors.Is(answer, pending) {
						failures++
					}
				}
				if s := statsOf(t, l); s.RemovalsFailed != uint64(failures) || s.Removing != 0 {
					t.Errorf("Stats = %+v", s)
				}
			})
		})
	}
}

// Close ends leases and waiters, removes, and is the last event.
func TestObserveClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
			if l.n == 0 {
				return grant(l), nil
			}
			return driver.Grant{}, hang(ctx)
		}}
		l := open(t, f)
		w := watch(t, l)
		mustAcquire(t, l, "name")
		p := start(t, l, "other")
		p.waits()
		time.Sleep(time.Second)
		w.wants(t, ofLease(locker.EventGranted, 1))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		_ = p.failed()
		events := w.take()
		if n := len(events); n != 3 || events[n-1].Kind != locker.EventClosed || events[n-1].Cause != nil {
			t.Fatalf("the events are %+v, want that Close is the last", events)
		}
		for _, e := range events[:2] { // in any order
			w.events = []seen{e}
			if e.ID == 1 {
				w.wants(t, ofLease(locker.EventReleased, 1, held(time.Second)))
			} else {
				w.wants(t, locker.Event{Kind: locker.EventRefused, Name: "other", ID: 2, Took: time.Second, Cause: locker.ErrClosed})
			}
		}
		_, _ = l.Acquire(t.Context(), "name")
		w.wants(t, locker.Event{Kind: locker.EventRefused, ID: 3, Cause: locker.ErrClosed})
	})
}
