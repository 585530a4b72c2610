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

// trivial grants everything at once: what is left is the engine's own cost.
type trivial struct{ last atomic.Int64 }

type trivialLock struct{ d *trivial }

func (d *trivial) Guarantees() locker.Guarantees { return locker.Guarantees{Backend: "trivial"} }
func (d *trivial) Close(context.Context) error   { return nil }

func (d *trivial) Lock(locker.Request, func(error)) (driver.Lock, error) { return trivialLock{d}, nil }

func (d *trivial) Renew(_ context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	base := driver.Stamp()
	for i := range locks {
		report(i, base, nil)
	}
}

func (l trivialLock) Acquire(context.Context) (driver.Grant, error) {
	return driver.Grant{Token: locker.Token(l.d.last.Add(1)), Base: driver.Stamp(), TTL: 30 * time.Second}, nil
}

func (l trivialLock) Release(context.Context) error { return nil }

// BenchmarkAcquireRelease is the engine's overhead: with a driver that does nothing, and a context
// that can be cancelled.
func BenchmarkAcquireRelease(b *testing.B) {
	for _, obeys := range []bool{false, true} {
		b.Run(fmt.Sprintf("obeys=%v", obeys), func(b *testing.B) {
			l := driver.New(&trivial{}, driver.Config{TTL: 30 * time.Second, ObeysContext: obeys})
			defer l.Close()
			acquireRelease(b, l)
		})
	}
}

func acquireRelease(b *testing.B, l locker.Locker) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		lease, err := l.Acquire(ctx, "name")
		if err != nil {
			b.Fatal(err)
		}
		if err := lease.Release(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkObserved is BenchmarkAcquireRelease with an observer, which gets two events for each.
func BenchmarkObserved(b *testing.B) {
	for _, obeys := range []bool{false, true} {
		b.Run(fmt.Sprintf("obeys=%v", obeys), func(b *testing.B) {
			l := driver.New(&trivial{}, driver.Config{TTL: 30 * time.Second, ObeysContext: obeys})
			defer l.Close()
			var events atomic.Int64
			attach(b, l, observerFunc(func(context.Context, locker.Event) { events.Add(1) }), 0)
			acquireRelease(b, l)
			if s, _ := locker.StatsOf(l); s.EventsDropped > 0 {
				b.ReportMetric(float64(s.EventsDropped)/float64(b.N), "dropped/op")
			}
		})
	}
}

// BenchmarkErr is a holder's look at its lease.
func BenchmarkErr(b *testing.B) {
	l := driver.New(&trivial{}, driver.Config{TTL: 30 * time.Second})
	defer l.Close()
	lease, err := l.Acquire(b.Context(), "name")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if lease.Err() != nil {
			b.Fatal(lease.Err())
		}
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		driver.Stamp()
	}
}
