package driver_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
)

// watcher notes the events of a Locker.
type watcher struct {
	mu     sync.Mutex
	events []seen
}

// seen is an event as it arrived.
type seen struct {
	locker.Event
	ctx context.Context
}

func (w *watcher) Observe(ctx context.Context, e locker.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, seen{e, ctx})
}

// take returns the events since the last call, once nothing happens any more at this moment.
func (w *watcher) take() []seen {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.events
	w.events = nil
	return events
}

// watch attaches a watcher of all kinds.
func watch(t testing.TB, l locker.Locker) *watcher {
	t.Helper()
	w := new(watcher)
	attach(t, l, w, 0)
	return w
}

func attach(t testing.TB, l locker.Locker, o locker.Observer, kinds locker.EventKind) (stop func()) {
	t.Helper()
	stop, err := locker.Observe(l, o, kinds)
	if err != nil {
		t.Fatalf("Observe = %v", err)
	}
	return stop
}

// wants fails the test unless exactly these events have come since the last call. A cause is compared
// with errors.Is. Backend, and the name "name", need not be written.
func (w *watcher) wants(t testing.TB, want ...locker.Event) []seen {
	t.Helper()
	got := w.take()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("event %d is missing: %+v", i, want[i])
			continue
		case i >= len(want):
			t.Errorf("event %d is one too many: %+v", i, got[i].Event)
			continue
		}
		g, wanted := got[i].Event, want[i]
		if wanted.Name == "" && wanted.Kind != locker.EventClosed {
			wanted.Name = "name"
		}
		if wanted.Holder == "" && wanted.Kind != locker.EventClosed {
			wanted.Holder = locker.DefaultHolder()
		}
		if (g.Cause == nil) != (wanted.Cause == nil) || !errors.Is(g.Cause, wanted.Cause) {
			t.Errorf("%v: Cause = %v, want it to match %v", g.Kind, g.Cause, wanted.Cause)
		}
		wanted.Cause, wanted.Backend, wanted.Time = g.Cause, "fake", g.Time
		if g != wanted {
			t.Errorf("event %d is\n%+v, want\n%+v", i, g, wanted)
		}
	}
	return got
}

// ofLease is an event of the lease with that id and the usual TTL. Its token is its id, unless
// acquisitions were made that had no grant.
func ofLease(kind locker.EventKind, id uint64, change ...func(*locker.Event)) locker.Event {
	e := locker.Event{Kind: kind, ID: id, Token: locker.Token(id), TTL: ttl}
	for _, c := range change {
		c(&e)
	}
	return e
}

func took(d time.Duration) func(*locker.Event) { return func(e *locker.Event) { e.Took = d } }
func held(d time.Duration) func(*locker.Event) { return func(e *locker.Event) { e.Held = d } }
func left(d time.Duration) func(*locker.Event) { return func(e *locker.Event) { e.Left = d } }
func tries(n int) func(*locker.Event)          { return func(e *locker.Event) { e.Tries = n } }
func because(err error) func(*locker.Event)    { return func(e *locker.Event) { e.Cause = err } }
func contended(e *locker.Event)                { e.Contended = true }

// statsOf are the statistics of l, once nothing happens any more at this moment.
func statsOf(t testing.TB, l locker.Locker) locker.Stats {
	t.Helper()
	synctest.Wait()
	s, ok := locker.StatsOf(l)
	if !ok {
		t.Fatal("StatsOf knows nothing of the engine")
	}
	return s
}
