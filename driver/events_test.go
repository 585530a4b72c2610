package driver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

func TestObserveALeaseFromGrantToRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{
			acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
				g := grant(l) // its base is the beginning of the request
				time.Sleep(time.Second)
				return g, nil
			},
			release: func(context.Context, *fakeLock) error {
				time.Sleep(3 * time.Second)
				return nil
			},
		}
		l := open(t, f)
		w := watch(t, l)
		lease := mustAcquire(t, l, "name")
		granted := w.wants(t, ofLease(locker.EventGranted, 1, took(time.Second)))
		if at := granted[0].Time; !at.Equal(time.Now()) {
			t.Errorf("Time = %v, want now, %v", at, time.Now())
		}
		if v := granted[0].ctx.Value(byCaller{}); v != true {
			t.Errorf("the context of the event has the value %v, want the caller's", v)
		}
		time.Sleep(time.Second)
		lease.Release(t.Context())
		w.wants(t, ofLease(locker.EventReleased, 1, took(3*time.Second), held(time.Second)))
	})
}

func TestObserveWaiting(t *testing.T) {
	bubble(t, func(t *testing.T) {
		grants := make(chan func(*fakeLock) driver.Grant)
		l := open(t, &fake{acquire: queues(grants)})
		w := watch(t, l)
		all := startAll(t, l, "name", 3)
		w.wants(t, locker.Event{Kind: locker.EventWaiting, ID: 1},
			locker.Event{Kind: locker.EventWaiting, ID: 2, Ahead: 1},
			locker.Event{Kind: locker.EventWaiting, ID: 3, Ahead: 2})
		time.Sleep(time.Second)
		for i, p := range all {
			grants <- grant
			_ = p.granted().Release(t.Context())
			id := uint64(i + 1)
			w.wants(t, ofLease(locker.EventGranted, id, took(time.Second), contended), ofLease(locker.EventReleased, id))
		}
	})
}

// A waiter that polls has one event of waiting. A waiter that has left is not ahead of anybody.
func TestObserveWaitingOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		acquire, _ := polls(t, locker.ErrHeld)
		l := open(t, &fake{acquire: acquire})
		w := watch(t, l)
		all := startAll(t, l, "name", 3)
		time.Sleep(time.Second)
		all[1].cancel(nil)
		_ = all[1].failed()
		start(t, l, "name").waits()
		w.wants(t, locker.Event{Kind: locker.EventWaiting, ID: 1},
			locker.Event{Kind: locker.EventWaiting, ID: 2, Ahead: 1},
			locker.Event{Kind: locker.EventWaiting, ID: 3, Ahead: 2},
			locker.Event{Kind: locker.EventRefused, ID: 2, Took: time.Second, Cause: context.Canceled},
			locker.Event{Kind: locker.EventWaiting, ID: 4, Ahead: 2})
	})
}

func TestObserveRefused(t *testing.T) {
	answers := func(err error) func(context.Context, *fakeLock) (driver.Grant, error) {
		return func(ctx context.Context, _ *fakeLock) (driver.Grant, error) {
			time.Sleep(time.Second)
			return driver.Grant{}, err
		}
	}
	for _, tc := range []struct {
		outcome string
		fake    *fake
		opts    []locker.Option
		gives   time.Duration // when the caller's time is up; negative: when it gives up
		closes  bool
		took    time.Duration
	}{
		{"held", &fake{acquire: answers(locker.ErrHeld)}, []locker.Option{locker.NoWait()}, time.Hour, false, time.Second},
		{"timeout", &fake{acquire: answers(driver.ErrQueued)}, nil, time.Minute, false, time.Minute},
		{"canceled", &fake{acquire: answers(driver.ErrQueued)}, nil, -time.Minute, false, time.Minute},
		{"closed", &fake{acquire: queues(nil)}, nil, time.Hour, true, time.Minute},
		{"invalid", &fake{refuse: locker.ErrOption}, nil, time.Hour, false, 0},
		{"error", &fake{acquire: answers(errService)}, nil, time.Hour, false, time.Second},
		{"error", &fake{acquire: func(ctx context.Context, _ *fakeLock) (driver.Grant, error) {
			return driver.Grant{}, hang(ctx)
		}}, nil, time.Minute, false, time.Minute},
	} {
		t.Run(tc.outcome, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				l := open(t, &fake{acquire: tc.fake.acquire, refuse: tc.fake.refuse})
				w := new(watcher)
				attach(t, l, w, locker.EventRefused)
				ctx, cancel := context.WithCancel(callerContext(t))
				defer cancel()
				if tc.gives > 0 {
					ctx, cancel = context.WithTimeout(ctx, tc.gives)
					defer cancel()
				} else {
					time.AfterFunc(-tc.gives, cancel)
				}
				p := startWith(t, ctx, l, "name", tc.opts...)
				if tc.closes {
					time.Sleep(time.Minute)
					_ = l.Close()
				}
				err := p.failed()
				got := w.take()
				if len(got) != 1 || got[0].Took != tc.took || got[0].ID != 1 || !errors.Is(err, got[0].Cause) {
					t.Fatalf("%v: the events are %+v", err, got)
				}
				if o := locker.OutcomeOf(got[0].Cause); o != tc.outcome || o != locker.OutcomeOf(err) {
					t.Errorf("the outcome of the event is %q, and of Acquire %q, want %q", o, locker.OutcomeOf(err), tc.outcome)
				}
				if s := statsOf(t, l); len(s.Refused) != 1 || s.Refused[tc.outcome] != 1 || s.Waiting != 0 {
					t.Errorf("Stats = %+v", s)
				}
			})
		})
	}
}

// Where nothing was begun, there is no event.
func TestObserveNothingOfBadCalls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := open(t, &fake{})
		w := watch(t, l)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		_, _ = l.Acquire(over, "name")
		_, _ = l.Acquire(t.Context(), "")
		_, _ = l.Acquire(t.Context(), "name", locker.WithTTL(-1))
		w.wants(t)
		ctx, end := locker.WithLease(t.Context(), mustAcquire(t, l, "name"))
		defer end()
		w.wants(t, ofLease(locker.EventGranted, 1))
		_, err := l.Acquire(ctx, "name")
		matches(t, "Acquire", err, locker.ErrHeldByCaller)
		w.wants(t)
		if s := statsOf(t, l); len(s.Refused) != 0 {
			t.Errorf("Refused = %v, want that nothing is counted", s.Refused)
		}
	})
}

// An acquisition that dies while it waits is replaced, and the call's id stays.
func TestObserveRequeued(t *testing.T) {
	bubble(t, func(t *testing.T) {
		grants := make(chan func(*fakeLock) driver.Grant)
		f := &fake{acquire: queues(grants)}
		l := open(t, f)
		w := watch(t, l)
		p := start(t, l, "name")
		p.waits()
		time.Sleep(time.Second)
		f.tell(0, errRevoked)
		time.Sleep(time.Second)
		grants <- grant
		_ = p.granted()
		w.wants(t, locker.Event{Kind: locker.EventWaiting, ID: 1},
			locker.Event{Kind: locker.EventRequeued, ID: 1, Cause: errRevoked},
			locker.Event{Kind: locker.EventGranted, ID: 1, Token: 2, TTL: ttl, Took: 2 * time.Second, Contended: true})
		if s := statsOf(t, l); s.Requeued != 1 || s.Contended != 1 || s.Granted != 1 {
			t.Errorf("Stats = %+v", s)
		}
	})
}

func TestObserveAbandoned(t *testing.T) {
	ignoringBubble(t, func(t *testing.T) {
		f := &fake{acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			time.Sleep(3 * time.Second) // ignores its context
			return grant(l), nil
		}}
		l := open(t, f)
		w := watch(t, l)
		p := start(t, l, "name")
		time.Sleep(time.Second)
		p.cancel(nil)
		_ = p.failed()
		w.wants(t, locker.Event{Kind: locker.EventRefused, ID: 1, Took: time.Second, Cause: context.Canceled})
		if s := statsOf(t, l); s.Waiting != 0 || s.Removing != 1 {
			t.Errorf("Stats = %+v, want the acquisition among what is to be removed", s)
		}
		time.Sleep(3 * time.Second)
		w.wants(t, locker.Event{Kind: locker.EventAbandoned, ID: 1, Token: 1})
		if s := statsOf(t, l); s.Abandoned != 1 || s.Removing != 0 {
			t.Errorf("Stats = %+v", s)
		}
	})
}

// Only a grant that the caller would have got is abandoned.
func TestObserveAbandonedOnly(t *testing.T) {
	for _, tc := range []struct {
		name  string
		grant func(l *fakeLock) driver.Grant
		loses bool
		want  int
	}{
		{"a good grant", grant, false, 1},
		{"a grant that is lost again", grant, true, 0},
		{"a grant that breaks the contract", func(*fakeLock) driver.Grant { return driver.Grant{} }, false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(callerContext(t))
				defer cancel()
				f := &fake{acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
					if tc.loses {
						l.lost(errRevoked)
					}
					cancel() // at the last moment
					return tc.grant(l), nil
				}}
				l := open(t, f)
				w := new(watcher)
				attach(t, l, w, locker.EventAbandoned|locker.EventGranted)
				_, err := l.Acquire(ctx, "name")
				matches(t, "Acquire", err, context.Canceled)
				if events := w.take(); len(events) != tc.want {
					t.Errorf("the events are %+v, want %d", events, tc.want)
				}
			})
		})
	}
}

// IDs are unique in a Locker, and tell the acquisitions of one name apart.
func TestObserveIDs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := open(t, &fake{})
		w := watch(t, l)
		for i := range 3 {
			mustAcquire(t, l, fmt.Sprint(i))
		}
		ids := make(map[uint64]string)
		for _, e := range w.take() {
			ids[e.ID] = e.Name
		}
		if len(ids) != 3 || ids[1] != "0" || ids[3] != "2" {
			t.Errorf("the IDs are %v, want 1, 2 and 3", ids)
		}
	})
}
