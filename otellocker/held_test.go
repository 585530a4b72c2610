package otellocker_test

import (
	"context"
	"io"
	"log/slog"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/observe"
	"github.com/fencedlock/locker/otellocker"
)

// willing is a driver that grants everything and remembers nothing, so that what is measured is the
// engine's and the observers'.
type willing struct{ last atomic.Int64 }

type willingLock struct{ d *willing }

func (d *willing) Guarantees() locker.Guarantees { return locker.Guarantees{Backend: "willing"} }
func (d *willing) Close(context.Context) error   { return nil }

func (d *willing) Lock(locker.Request, func(error)) (driver.Lock, error) { return willingLock{d}, nil }

func (d *willing) Renew(_ context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	base := driver.Stamp()
	for i := range locks {
		report(i, base, nil)
	}
}

func (l willingLock) Acquire(context.Context) (driver.Grant, error) {
	return driver.Grant{Token: locker.Token(l.d.last.Add(1)), Base: driver.Stamp(), TTL: 30 * time.Second}, nil
}

func (l willingLock) Release(context.Context) error { return nil }

// 10,000 leases with an observer take no more than 12 MB and 100 goroutines. A span of a lease is
// recorded for as long as the lease is held, so it takes more.
func TestHeldLeasesAreSmall(t *testing.T) {
	sampled := sdktrace.NewTracerProvider()
	unsampled := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	with := func(opts ...otellocker.Option) func(locker.Locker) error {
		return func(l locker.Locker) error {
			_, err := otellocker.Instrument(l, append(opts, otellocker.WithMeterProvider(newMeters()), otellocker.WithNames(firstPart))...)
			return err
		}
	}
	for _, c := range []struct {
		observer string
		most     int64 // MB
		attach   func(locker.Locker) error
	}{
		{"function", 12, func(locker.Locker) error { return nil }},
		{"log", 12, func(l locker.Locker) error {
			_, err := locker.Observe(l, observe.Slog(slog.NewTextHandler(io.Discard, nil)), 0)
			return err
		}},
		{"leaks", 12, func(l locker.Locker) error {
			_, err := observe.Leaks(l, time.Hour, time.Hour, func(observe.Leak) {})
			return err
		}},
		{"metrics", 12, with(otellocker.WithTracerProvider(noop.NewTracerProvider()))},
		{"spans that aren't sampled", 12, with(otellocker.WithTracerProvider(unsampled))},
		{"spans", 14, with(otellocker.WithTracerProvider(sampled))},
		{"spans of leases", 24, with(otellocker.WithTracerProvider(sampled), otellocker.WithHoldSpans())},
	} {
		t.Run(c.observer, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { holdMany(t, c.most, c.attach) })
		})
	}
}

// holdMany holds many leases through three renewals of each.
func holdMany(t *testing.T, most int64, attach func(locker.Locker) error) {
	const many, mostGoroutines, mostLeft, mb = 10_000, 100, 4, 1_000_000 // maps stay large
	l := driver.New(&willing{}, driver.Config{TTL: 30 * time.Second})
	defer l.Close()
	if err := attach(l); err != nil {
		t.Fatal(err)
	}
	heap, goroutines, peak := heapInUse(), runtime.NumGoroutine(), 0
	count := func(context.Context, locker.Event) { peak = max(peak, runtime.NumGoroutine()-goroutines) }
	if _, err := locker.Observe(l, observe.Func(count), locker.EventGranted|locker.EventRenewed); err != nil {
		t.Fatal(err)
	}
	leases := make([]locker.Lease, many)
	for i := range leases {
		leases[i] = acquire(t, l, "invoices/"+strconv.Itoa(i))
		if i%1000 == 0 {
			time.Sleep(time.Second) // the renewals are not all at the same time
		}
	}
	time.Sleep(30 * time.Second)
	synctest.Wait()
	held := heapInUse() - heap
	if s, _ := locker.StatsOf(l); s.Held != many || s.Renewed < 2*many || s.EventsDropped > 0 {
		t.Fatalf("%d leases are held, %d renewals made, %d events dropped", s.Held, s.Renewed, s.EventsDropped)
	}
	if held > most*mb {
		t.Errorf("%d leases take %.1f MB, want at most %d", many, float64(held)/mb, most)
	}
	if peak > mostGoroutines {
		t.Errorf("%d goroutines, want at most %d", peak, mostGoroutines)
	}
	for _, lease := range leases {
		if err := lease.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	clear(leases)
	synctest.Wait()
	left := heapInUse() - heap
	if left > mostLeft*mb {
		t.Errorf("%.1f MB are left when all leases are released, want at most %d", float64(left)/mb, mostLeft)
	}
	t.Logf("%d bytes for each lease while it is held, and %d when all are released; %d goroutines", held/many, left/many, peak)
	runtime.KeepAlive(leases)
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
