package otellocker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/otellocker"
)

var errService = errors.New("service failed")

const (
	there, back = 20 * time.Millisecond, 30 * time.Millisecond // a request and its reply take this long
	ttl         = time.Hour                                    // so long that the engine renews nothing in a scenario
)

// meters is a meter provider and its reader.
type meters struct {
	*sdkmetric.MeterProvider
	reader *sdkmetric.ManualReader
}

func newMeters() meters {
	reader := sdkmetric.NewManualReader()
	return meters{sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(resource.Empty())), reader}
}

// collect returns what was recorded, by the names of the metrics.
func (m meters) collect(t testing.TB) map[string]metricdata.Metrics {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := m.reader.Collect(context.Background(), &data); err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]metricdata.Metrics)
	for _, s := range data.ScopeMetrics {
		for _, metric := range s.Metrics {
			byName[metric.Name] = metric
		}
	}
	return byName
}

func instrument(t testing.TB, l locker.Locker, opts ...otellocker.Option) (stop func()) {
	t.Helper()
	stop, err := otellocker.Instrument(l, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return stop
}

func acquire(t testing.TB, l locker.Locker, name string, opts ...locker.Option) locker.Lease {
	t.Helper()
	lease, err := l.Acquire(context.Background(), name, opts...)
	if err != nil {
		t.Fatalf("Acquire(%q) = %v", name, err)
	}
	return lease
}

// acquireLater acquires in another goroutine, and returns when the call waits.
func acquireLater(l locker.Locker, name string) (granted chan locker.Lease) {
	granted = make(chan locker.Lease, 1)
	go func() {
		lease, _ := l.Acquire(context.Background(), name) // nil after Close
		granted <- lease
	}()
	synctest.Wait()
	return granted
}

// firstPart is the part of a name before the slash.
func firstPart(name string) string {
	group, _, _ := strings.Cut(name, "/")
	return group
}

// play is a scenario in which everything happens that has a metric. At its end a lease is held, a
// call waits and a removal is pending.
func play(t *testing.T, l locker.Locker, s *membackend.Server, link *membackend.Link) {
	rival := membackend.New(membackend.WithServer(s), membackend.WithDefaultTTL(ttl))
	t.Cleanup(func() { _ = rival.Close() })
	refused := func(want string, ctx context.Context, name string, opts ...locker.Option) {
		t.Helper()
		if lease, err := l.Acquire(ctx, name, opts...); locker.OutcomeOf(err) != want {
			t.Fatalf("Acquire(%q) = %v, %v, want the outcome %s", name, lease, err, want)
		}
	}
	within := func(d time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		t.Cleanup(cancel)
		return ctx
	}

	lease := acquire(t, l, "invoices/1") // 50 ms
	time.Sleep(time.Minute)
	if err := lease.Renew(t.Context()); err != nil { // 50 ms, answered 60.1 s after the first request was sent
		t.Fatal(err)
	}
	s.RefuseRenewals(errService)
	if err := lease.Renew(t.Context()); !errors.Is(err, errService) { // 50 ms
		t.Fatalf("Renew = %v", err)
	}
	s.RefuseRenewals(nil)

	refused("held", t.Context(), "invoices/1", locker.NoWait()) // 50 ms
	refused("timeout", within(10*time.Second), "invoices/1")    // 10 s
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Second, cancel)
	refused("canceled", ctx, "invoices/1") // 1 s

	granted := acquireLater(l, "invoices/1")
	time.Sleep(4 * time.Second)
	if err := lease.Release(t.Context()); err != nil { // 50 ms, held for 75.15 s
		t.Fatal(err)
	}
	lease = <-granted // after 4.02 s: a push isn't delayed
	time.Sleep(2 * time.Second)
	s.Expire("invoices/1") // held for 2.03 s
	<-lease.Done()

	s.Fail(errService)
	refused("error", t.Context(), "reports/1") // 50 ms
	s.Fail(nil)
	time.Sleep(time.Minute)
	refused("error", within(40*time.Millisecond), "reports/1") // 40 ms
	time.Sleep(time.Minute)

	// A grant of a lease without renewal is verified when its request is older than a twentieth of
	// the TTL. The caller gives up during that.
	rivals := acquire(t, rival, "reports/2")
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(4*time.Minute, func() {
		_ = rivals.Release(context.Background())
		time.Sleep(10 * time.Millisecond)
		cancel()
	})
	refused("canceled", ctx, "reports/2", locker.WithoutRenewal()) // 240.01 s
	time.Sleep(time.Minute)

	rivals = acquire(t, rival, "invoices/2")
	granted = acquireLater(l, "invoices/2")
	time.Sleep(time.Second)
	link.Sever() // the place is lost
	time.Sleep(time.Second)
	if err := rivals.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	lease = <-granted // after 2 s
	time.Sleep(3 * time.Second)
	s.Pause()
	if err := lease.Release(t.Context()); err == nil { // 2 s, held for 3 s
		t.Fatal("Release = nil from a service that is paused")
	}
	time.Sleep(3 * time.Second)
	s.Resume()
	time.Sleep(time.Second) // confirmed after 5.03 s

	acquire(t, l, "invoices/3")      // 50 ms
	acquireLater(l, "invoices/3")    // it waits
	last := acquire(t, l, "other/4") // 50 ms
	s.Pause()
	_ = last.Release(t.Context()) // 2 s
	synctest.Wait()
}

// TestMetrics compares each metric with what was recorded.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, link, m := membackend.NewServer(), membackend.NewLink(), newMeters()
		link.Delay(there, back)
		l := membackend.New(membackend.WithServer(s), membackend.WithLink(link), membackend.WithDefaultTTL(ttl))
		defer l.Close()
		defer s.Resume()
		instrument(t, l, otellocker.WithMeterProvider(m), otellocker.WithNames(firstPart),
			otellocker.WithAttributes(attribute.String("locker.instance", "test")))
		play(t, l, s, link)

		got := m.collect(t)
		for _, want := range wanted() {
			metricdatatest.AssertEqual(t, want, got[want.Name], metricdatatest.IgnoreTimestamp(), metricdatatest.IgnoreExemplars())
			delete(got, want.Name)
		}
		for name := range got {
			t.Errorf("the metric %s is not expected", name)
		}
	})
}
