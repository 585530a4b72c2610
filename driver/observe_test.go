package driver_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// observerFunc is an observer of one function.
type observerFunc func(ctx context.Context, e locker.Event)

func (f observerFunc) Observe(ctx context.Context, e locker.Event) { f(ctx, e) }

// blocked attaches an observer that hangs in its first call until the end of the test.
func blocked(t testing.TB, l locker.Locker) {
	gate := make(chan struct{})
	attach(t, l, observerFunc(func(context.Context, locker.Event) { <-gate }), 0)
	t.Cleanup(func() { close(gate) })
}

// Nothing waits for an observer: acquisitions, renewals, the deadline, Release and Close are as without.
func TestObserverThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var silent atomic.Bool
		f := &fake{renew: func(ctx context.Context, _ *fakeLock) (driver.Instant, error) {
			if silent.Load() {
				return 0, hang(ctx)
			}
			return driver.Stamp(), nil
		}}
		l := open(t, f)
		blocked(t, l)
		began := time.Now()
		lease := mustAcquire(t, l, "name")
		if err := mustAcquire(t, l, "other").Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("it took %v", d)
		}
		time.Sleep(10 * ttl)
		if err := lease.Err(); err != nil {
			t.Fatalf("Err = %v, want that it was renewed", err)
		}
		silent.Store(true)
		<-lease.Done()
		if late := time.Since(lease.Deadline()); late != 0 {
			t.Errorf("Done closed %v after the deadline", late)
		}
		time.Sleep(time.Minute)
		began = time.Now()
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		if d := time.Since(began); d != time.Second {
			t.Errorf("Close took %v, want the second that an observer has", d)
		}
	})
}

// What can't be delivered is bounded and counted. Renewals leave half of the room to other kinds.
func TestObserverThatIsTooSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := driver.New(&trivial{}, driver.Config{TTL: ttl})
		defer l.Close()
		gate := make(chan struct{})
		var mu sync.Mutex
		got := make(map[locker.EventKind]int)
		attach(t, l, observerFunc(func(_ context.Context, e locker.Event) {
			<-gate
			mu.Lock()
			defer mu.Unlock()
			got[e.Kind]++
		}), 0)
		lease := mustAcquire(t, l, "name")
		synctest.Wait() // one event is on its way
		for range 10_000 {
			if err := lease.Renew(callerContext(t)); err != nil {
				t.Fatal(err)
			}
		}
		for range 10_000 {
			_ = mustAcquire(t, l, "other").Release(t.Context())
		}
		const all = 1 + 10_000 + 20_000
		if s := statsOf(t, l); s.EventsDropped != all-8192 || s.Renewed != 10_000 || s.Granted != 10_001 {
			t.Errorf("Stats = %+v, want %d events dropped", s, all-8192)
		}
		const few = 100
		for range few { // each that is delivered makes room
			gate <- struct{}{}
		}
		synctest.Wait()
		for range few / 2 {
			_ = mustAcquire(t, l, "other").Release(t.Context())
		}
		if s := statsOf(t, l); s.EventsDropped != all-8192 {
			t.Errorf("%d events were dropped, though there was room", s.EventsDropped)
		}
		close(gate)
		synctest.Wait()
		mu.Lock()
		if n := got[locker.EventRenewed]; n != 4095 {
			t.Errorf("%d renewals were delivered, want 4095", n)
		}
		if n := got[locker.EventGranted] + got[locker.EventReleased]; n != 4097+few {
			t.Errorf("%d other events were delivered, want %d", n, 4097+few)
		}
		mu.Unlock()
		_ = lease.Release(t.Context())
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if n := got[locker.EventGranted] + got[locker.EventReleased]; n != 4098+few {
			t.Errorf("%d other events were delivered, want one more", n)
		}
	})
}

// An observer may call anything. The lease, the Locker and the observer are the event's.
func TestObserverCallsBack(t *testing.T) {
	for what, call := range map[string]func(l locker.Locker, lease locker.Lease, stop func()){
		"Err":      func(_ locker.Locker, lease locker.Lease, _ func()) { _ = lease.Err() },
		"Deadline": func(_ locker.Locker, lease locker.Lease, _ func()) { _ = lease.Deadline() },
		"Renew":    func(_ locker.Locker, lease locker.Lease, _ func()) { _ = lease.Renew(context.Background()) },
		"Release":  func(_ locker.Locker, lease locker.Lease, _ func()) { _ = lease.Release(context.Background()) },
		"Acquire": func(l locker.Locker, _ locker.Lease, _ func()) {
			if _, err := l.Acquire(context.Background(), "other"); err != nil {
				panic(err)
			}
		},
		"Close": func(l locker.Locker, _ locker.Lease, _ func()) { _ = l.Close() },
		"Stats": func(l locker.Locker, _ locker.Lease, _ func()) { locker.StatsOf(l); locker.Leases(l) },
		"Observe": func(l locker.Locker, _ locker.Lease, _ func()) {
			_, _ = locker.Observe(l, observerFunc(func(context.Context, locker.Event) {}), 0)
		},
		"stop": func(_ locker.Locker, _ locker.Lease, stop func()) { stop() },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				l := open(t, &fake{})
				lease := mustAcquire(t, l, "name")
				var stop func()
				var called atomic.Int32
				stop = attach(t, l, observerFunc(func(context.Context, locker.Event) {
					if called.Add(1) == 1 {
						call(l, lease, stop)
						called.Add(1)
					}
				}), locker.EventGranted)
				_ = start(t, l, "another")
				time.Sleep(time.Minute)
				if called.Load() < 2 {
					t.Error("the observer hangs")
				}
			})
		})
	}
}

// Each observer gets the kinds that it wants, from when it was attached until it is stopped.
func TestObserversComeAndGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := open(t, &fake{})
		cycle := func() {
			_ = mustAcquire(t, l, "name").Release(t.Context())
			synctest.Wait() // it is delivered
		}
		cycle()
		granted, all := new(watcher), new(watcher)
		stop := attach(t, l, granted, locker.EventGranted)
		cycle()
		stopAll := attach(t, l, all, 0)
		cycle()
		stop()
		stop()
		cycle()
		stopAll()
		cycle()
		granted.wants(t, ofLease(locker.EventGranted, 2), ofLease(locker.EventGranted, 3))
		all.wants(t, ofLease(locker.EventGranted, 3), ofLease(locker.EventReleased, 3),
			ofLease(locker.EventGranted, 4), ofLease(locker.EventReleased, 4))
		if s := statsOf(t, l); s.Granted != 5 || s.Released != 5 {
			t.Errorf("Stats = %+v", s)
		}
	})
}

// What waits for its delivery when an observer stops isn't delivered to it.
func TestStoppedObserverHearsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := open(t, &fake{})
		gate := make(chan struct{})
		attach(t, l, observerFunc(func(context.Context, locker.Event) { <-gate }), 0)
		w := new(watcher)
		stop := attach(t, l, w, 0)
		mustAcquire(t, l, "name")
		stop()
		close(gate)
		w.wants(t)
	})
}

// An observer that ends its goroutine ends nobody's delivery.
func TestObserverThatEndsItsGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := open(t, &fake{})
		attach(t, l, observerFunc(func(context.Context, locker.Event) { runtime.Goexit() }), 0)
		w := watch(t, l)
		for range 2 {
			_ = mustAcquire(t, l, "name").Release(t.Context())
		}
		w.wants(t, ofLease(locker.EventGranted, 1), ofLease(locker.EventReleased, 1),
			ofLease(locker.EventGranted, 2), ofLease(locker.EventReleased, 2))
		began := time.Now()
		_ = l.Close()
		if d := time.Since(began); d != 0 {
			t.Errorf("Close took %v", d)
		}
	})
}

// An idle Locker that is observed runs nothing.
func TestObserverCostsNoGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := open(t, &fake{})
		before := runtime.NumGoroutine()
		w := watch(t, l)
		mustAcquire(t, l, "name")
		if len(w.take()) != 1 {
			t.Error("there is no event")
		}
		// A goroutine that is ending has left the bubble a moment before it is counted no more.
		n := runtime.NumGoroutine()
		for range 100_000 {
			if n <= before {
				break
			}
			runtime.Gosched()
			n = runtime.NumGoroutine()
		}
		if n > before {
			t.Errorf("%d goroutines, and %d before", n, before)
		}
	})
}

// The events of each acquisition come in their order, while many go on.
func TestEventsComeInOrder(t *testing.T) {
	const names, each = 8, 8
	l := driver.New(&trivial{}, driver.Config{TTL: ttl})
	var state [1 + names*each]locker.EventKind // by ID; of one goroutine
	var wrong []string
	attach(t, l, observerFunc(func(_ context.Context, e locker.Event) {
		before := map[locker.EventKind]locker.EventKind{
			locker.EventWaiting: 0, locker.EventGranted: locker.EventWaiting, locker.EventRenewed: locker.EventGranted,
			locker.EventReleased: locker.EventGranted | locker.EventRenewed,
		}[e.Kind]
		was := state[e.ID]
		if e.Kind != locker.EventClosed && was&before == 0 && was != 0 {
			wrong = append(wrong, fmt.Sprintf("%d: %v after %v", e.ID, e.Kind, was))
		}
		state[e.ID] = e.Kind
	}), 0)
	var wg sync.WaitGroup
	for i := range names * each {
		wg.Go(func() {
			lease, err := l.Acquire(t.Context(), fmt.Sprint(i%names))
			if err != nil {
				t.Errorf("Acquire = %v", err)
				return
			}
			if rand.N(2) == 0 {
				_ = lease.Renew(t.Context())
			}
			_ = lease.Release(t.Context())
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	for id, last := range state[1:] { // Close has waited for the delivery
		if last != locker.EventReleased {
			t.Errorf("the last event of %d is %v", id+1, last)
		}
	}
	for _, text := range wrong {
		t.Error(text)
	}
}
