package driver_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// When a service stops answering, all leases are lost at their deadlines, and few goroutines are
// used. When it is back, everything that they have left is removed.
func TestABlackHole(t *testing.T) {
	const many = 10_000
	bubble(t, func(t *testing.T) {
		var silent atomic.Bool
		answer := func(ctx context.Context) error {
			if silent.Load() {
				return hang(ctx)
			}
			return nil
		}
		f := &fake{
			renew: func(ctx context.Context, _ *fakeLock) (driver.Instant, error) {
				base := driver.Stamp()
				return base, answer(ctx)
			},
			release: func(ctx context.Context, _ *fakeLock) error { return answer(ctx) },
		}
		l := open(t, f)
		baseline := runtime.NumGoroutine()
		leases := make([]locker.Lease, many)
		for i := range leases {
			leases[i] = mustAcquire(t, l, fmt.Sprint(i))
			if i%1000 == 0 {
				time.Sleep(ttl / 100)
			}
		}
		time.Sleep(ttl)
		deadlines := make([]time.Time, many)
		silent.Store(true)
		time.Sleep(ttl / 3) // what was under way has been answered
		for i, lease := range leases {
			deadlines[i] = lease.Deadline()
		}
		most := 0
		for range 300 {
			time.Sleep(100 * time.Millisecond)
			most = max(most, runtime.NumGoroutine()-baseline)
		}
		if most > 100 {
			t.Errorf("%d goroutines while the service was silent, want 100 at most", most)
		}
		for i, lease := range leases {
			if lease.Err() == nil {
				t.Fatalf("%s is not lost", lease.Name())
			}
			if d := lease.Deadline(); !d.Equal(deadlines[i]) {
				t.Fatalf("the deadline of %s moved by %v while the service was silent", lease.Name(), d.Sub(deadlines[i]))
			}
		}
		silent.Store(false)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		left := 0
		for _, lock := range f.prepared() {
			if !lock.isRemoved() {
				left++
			}
		}
		if left > 0 {
			t.Errorf("%d leases are not removed 20s after the service is back", left)
		}
	})
}
