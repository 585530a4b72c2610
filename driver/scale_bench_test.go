package driver_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// blackHole is the trivial driver with a service that can stop answering: calls then hang until
// their context is over.
type blackHole struct {
	trivial
	ttl      time.Duration
	silent   atomic.Bool
	renewals atomic.Int64
}

type blackHoleLock struct{ d *blackHole }

func (d *blackHole) Lock(locker.Request, func(error)) (driver.Lock, error) {
	return blackHoleLock{d}, nil
}

func (d *blackHole) Renew(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	d.renewals.Add(1)
	if d.silent.Load() {
		<-ctx.Done()
		return
	}
	d.trivial.Renew(ctx, locks, report)
}

func (l blackHoleLock) Acquire(context.Context) (driver.Grant, error) {
	return driver.Grant{Token: locker.Token(l.d.last.Add(1)), Base: driver.Stamp(), TTL: l.d.ttl}, nil
}

func (l blackHoleLock) Release(ctx context.Context) error {
	if l.d.silent.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

const many = 10_000

func acquireMany(b *testing.B, l locker.Locker) []locker.Lease {
	b.Helper()
	leases := make([]locker.Lease, many)
	for i := range leases {
		lease, err := l.Acquire(b.Context(), fmt.Sprintf("name-%d", i))
		if err != nil {
			b.Fatal(err)
		}
		leases[i] = lease
	}
	return leases
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkHeld is what 10,000 held leases cost: heap, goroutines, calls of Renew. The TTL is a
// tenth of the usual 30 s, so a tenth of the measured calls a second is reported.
func BenchmarkHeld(b *testing.B) {
	for b.Loop() {
		d := &blackHole{ttl: 3 * time.Second}
		l := driver.New(d, driver.Config{TTL: d.ttl})
		heap, goroutines := heapInUse(), runtime.NumGoroutine()
		leases := acquireMany(b, l)
		heapHeld := heapInUse() - heap
		began, before := time.Now(), d.renewals.Load()
		peak := 0
		for time.Since(began) < 2*d.ttl {
			peak = max(peak, runtime.NumGoroutine()-goroutines)
			time.Sleep(time.Millisecond)
		}
		calls := float64(d.renewals.Load()-before) / time.Since(began).Seconds()
		for _, lease := range leases {
			if err := lease.Err(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(heapHeld)/many, "heap-B/lease")
		b.ReportMetric(float64(peak), "peak-goroutines")
		b.ReportMetric(calls/10, "renewals/s-at-30s")
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBlackHole is what 10,000 leases cost while the service doesn't answer: until all are
// lost, and while their removal is tried.
func BenchmarkBlackHole(b *testing.B) {
	for b.Loop() {
		d := &blackHole{ttl: 2 * time.Second}
		l := driver.New(d, driver.Config{TTL: d.ttl})
		goroutines := runtime.NumGoroutine()
		leases := acquireMany(b, l)
		d.silent.Store(true)
		began, peak, late := time.Now(), 0, time.Duration(0)
		for lost := 0; lost < many; {
			peak = max(peak, runtime.NumGoroutine()-goroutines)
			select {
			case <-leases[lost].Done():
				late = max(late, -time.Until(leases[lost].Deadline()))
				lost++
			case <-time.After(time.Millisecond):
			}
		}
		for since := time.Now(); time.Since(since) < d.ttl; time.Sleep(time.Millisecond) {
			peak = max(peak, runtime.NumGoroutine()-goroutines)
		}
		b.ReportMetric(time.Since(began).Seconds(), "s-in-the-dark")
		b.ReportMetric(float64(late.Milliseconds()), "ms-Done-after-deadline")
		b.ReportMetric(float64(peak), "peak-goroutines")
		d.silent.Store(false)
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
