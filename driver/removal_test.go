package driver_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// Release reports a removal that isn't confirmed, which goes on in the background, with growing
// pauses, until it is.
func TestReleaseThatIsNotConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var tries journal
		f := &fake{release: func(context.Context, *fakeLock) error {
			if tries.note() > 20 {
				return nil
			}
			return errService
		}}
		lease := mustAcquire(t, open(t, f), "name")
		err := lease.Release(t.Context())
		matches(t, "Release", err, errService)
		matchesNone(t, "Release", err, locker.ErrLost, locker.ErrReleased)
		matches(t, "Err", lease.Err(), locker.ErrReleased)
		time.Sleep(3 * time.Minute)
		at := tries.times()
		if n := len(at); n != 21 {
			t.Fatalf("%d tries, want 21", n)
		}
		pause := 10 * time.Millisecond
		for i := 1; i < len(at); i++ {
			if d := at[i].Sub(at[i-1]); d < pause/2 || d > pause*3/2 {
				t.Errorf("try %d came after %v, want about %v", i, d, pause)
			}
			pause = min(2*pause, 5*time.Second)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release once it is removed = %v", err)
		}
	})
}

// A lock that is free for others counts as released, though remains must still be removed.
func TestRemainsKeepNobodyOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{release: func(_ context.Context, l *fakeLock) error {
			switch n := l.count(&l.releases); {
			case n < 5:
				return &driver.PartialReleaseError{Err: errService}
			case n < 8:
				return errService // the same is still left
			}
			return nil
		}}
		lease := mustAcquire(t, open(t, f), "name")
		for range 6 {
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("Release = %v", err)
			}
		}
		time.Sleep(time.Minute)
		if !f.lock(0).isRemoved() {
			t.Error("the remains were not removed")
		}
	})
}

// After a Release that returned nil, the next one does so at once.
func TestReleaseAgainWhileRemainsExist(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		f := &fake{release: func(ctx context.Context, l *fakeLock) error {
			if l.count(&l.releases) == 1 {
				return &driver.PartialReleaseError{Err: errService}
			}
			select {
			case <-gate:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		lease := mustAcquire(t, open(t, f), "name")
		for range 3 {
			began := time.Now()
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("Release = %v", err)
			}
			if d := time.Since(began); d > 0 {
				t.Errorf("Release took %v, want it to know already", d)
			}
			time.Sleep(time.Second)
		}
		close(gate)
	})
}

// A service that refuses everything quickly is not asked at a rate that grows with the number of
// removals.
func TestRemovalsThatFailBackOff(t *testing.T) {
	const many = 1000
	bubble(t, func(t *testing.T) {
		var tries atomic.Int64
		var healed atomic.Bool
		f := &fake{release: func(context.Context, *fakeLock) error {
			tries.Add(1)
			if healed.Load() {
				return nil
			}
			return errService
		}}
		l := open(t, f)
		for i := range many {
			mustAcquire(t, l, fmt.Sprint(i), locker.WithoutRenewal())
		}
		time.Sleep(ttl + time.Minute)
		tries.Store(0)
		time.Sleep(time.Minute)
		if n := tries.Load(); n > many*60/4 || n < many*60/8 {
			t.Errorf("%d tries a minute to remove %d leases, want one each five seconds or so", n, many)
		}
		healed.Store(true)
		time.Sleep(8 * time.Second)
		for _, lock := range f.prepared() {
			if !lock.isRemoved() {
				t.Fatal("not all were removed within the longest pause")
			}
		}
	})
}

// Thousands of removals don't wait for each other where the service answers, and don't cost a
// goroutine each where it doesn't.
func TestManyRemovals(t *testing.T) {
	for _, closes := range []bool{true, false} { // while many are due, or when all is done
		bubble(t, func(t *testing.T) { manyRemovals(t, closes) })
	}
}

func manyRemovals(t *testing.T, closes bool) {
	const many, most, few = 10_000, 512, 16
	var silent atomic.Bool
	var going, peak atomic.Int64
	f := &fake{release: func(ctx context.Context, _ *fakeLock) error {
		peak.Store(max(peak.Load(), going.Add(1)))
		defer going.Add(-1)
		if silent.Load() {
			return hang(ctx)
		}
		time.Sleep(50 * time.Millisecond)
		return nil
	}}
	l := open(t, f)
	for i := range many {
		mustAcquire(t, l, fmt.Sprint(i), locker.WithoutRenewal())
	}
	time.Sleep(ttl + 100*time.Millisecond) // they end together; some have been removed
	if n := peak.Load(); n > most {
		t.Errorf("%d removals at once on a service that answers, want %d at most", n, most)
	}
	for range 2 {
		silent.Store(true)
		time.Sleep(2 * time.Minute) // until each has been tried
		peak.Store(0)
		time.Sleep(time.Minute)
		if n := peak.Load(); n > few {
			t.Errorf("%d removals at once on a service that doesn't answer, want %d at most", n, few)
		}
		silent.Store(false)
		for began := time.Now(); peak.Load() < most/2; time.Sleep(time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatalf("%d removals at once on a service that is back, want more", peak.Load())
			}
		}
	}
	if !closes {
		time.Sleep(time.Minute)
		for _, lock := range f.prepared() {
			if !lock.isRemoved() {
				t.Fatal("not all were removed once the service was back")
			}
		}
	}
	if err := closesWithin(t, l, 5*time.Second); err != nil {
		t.Errorf("Close = %v, want all removed", err)
	}
	if n := peak.Load(); n > most {
		t.Errorf("%d removals at once, want %d at most", n, most)
	}
}

// Release returns the error of its own request, not the error of an earlier one.
func TestReleaseReturnsTheNewestError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{leaves: true, release: func(_ context.Context, l *fakeLock) error {
			if l.count(&l.releases) == 1 {
				return errService
			}
			return errRevoked
		}}
		lease := mustAcquire(t, open(t, f), "name")
		matches(t, "Release", lease.Release(t.Context()), errService)
		err := lease.Release(t.Context())
		matches(t, "Release", err, errRevoked)
		matchesNone(t, "Release", err, errService)
	})
}

// A lost lease is removed in the background: its Release has nothing to wait for.
func TestReleaseOfALostLeaseReturnsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		f := &fake{release: func(context.Context, *fakeLock) error {
			<-gate // ignores its context
			return nil
		}}
		lease := mustAcquire(t, open(t, f), "name")
		f.tell(0, errRevoked)
		began := time.Now()
		matches(t, "Release", lease.Release(t.Context()), locker.ErrLost, errRevoked)
		if d := time.Since(began); d > 0 {
			t.Errorf("Release took %v, want it to return at once", d)
		}
		close(gate)
	})
}
