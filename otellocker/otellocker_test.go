package otellocker_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/otellocker"
)

// series is how many series each metric has.
func series(t *testing.T, m meters) map[string]int {
	t.Helper()
	counts := make(map[string]int)
	for name, metric := range m.collect(t) {
		switch data := metric.Data.(type) {
		case metricdata.Histogram[float64]:
			counts[name] = len(data.DataPoints)
		case metricdata.Sum[int64]:
			counts[name] = len(data.DataPoints)
		case metricdata.Gauge[float64]:
			counts[name] = len(data.DataPoints)
		default:
			t.Fatalf("%s is a %T", name, metric.Data)
		}
	}
	return counts
}

// handled are the errors that OpenTelemetry's error handler got.
type handled struct {
	mu   sync.Mutex
	errs []error
}

func (h *handled) Handle(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs = append(h.errs, err)
}

// useAll acquires and releases locks of these names, and renews each lease once.
func useAll(t *testing.T, l locker.Locker, name string, n int) {
	for i := range n {
		lease := acquire(t, l, fmt.Sprintf(name, i))
		if err := lease.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = lease.Release(t.Context())
		if i%100 == 0 {
			synctest.Wait() // so that no events are dropped
		}
	}
	synctest.Wait()
}

// perGroup is how many series a metric has for each group when nothing fails.
func perGroup(name string) int {
	if name == "locker.lease.lost" {
		return 8 // one for each cause
	}
	return 1
}

// A lock's name is no attribute of metrics.
func TestNamesAreNoSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, m := membackend.New(), newMeters()
		defer l.Close()
		instrument(t, l, otellocker.WithMeterProvider(m))
		useAll(t, l, "invoices/%d", 10_000)
		counts := series(t, m)
		if len(counts) < 9 {
			t.Errorf("there are %d metrics: %v", len(counts), counts)
		}
		for name, n := range counts {
			if want := perGroup(name); n != want {
				t.Errorf("%s has %d series, want %d", name, n, want)
			}
		}
	})
}

func TestGroupsAreBounded(t *testing.T) {
	var h handled
	otel.SetErrorHandler(&h)
	defer otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	synctest.Test(t, func(t *testing.T) {
		l, m := membackend.New(), newMeters()
		defer l.Close()
		instrument(t, l, otellocker.WithMeterProvider(m), otellocker.WithNames(firstPart))
		useAll(t, l, "group%d/1", 1_000)
		useAll(t, l, "group%d/2", 1_000)
		for name, n := range series(t, m) {
			want := 101 * perGroup(name)
			if name == "locker.events.dropped" {
				want = 1
			}
			if n != want {
				t.Errorf("%s has %d series, want %d", name, n, want)
			}
		}
	})
	if len(h.errs) != 1 || !strings.Contains(h.errs[0].Error(), `"group100"`) {
		t.Errorf("the error handler got %v, want one error", h.errs)
	}
}

// A group that cuts a name may not be UTF-8, and an empty one is none.
func TestStrangeGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, m := membackend.New(), newMeters()
		defer l.Close()
		instrument(t, l, otellocker.WithMeterProvider(m), otellocker.WithNames(func(name string) string {
			if name == "none" {
				return ""
			}
			return name[:1]
		}))
		_, _ = acquire(t, l, "ärger"), acquire(t, l, "none")
		synctest.Wait()
		backend := attribute.String("locker.backend", "mem")
		want := metricdata.Sum[int64]{Temporality: metricdata.CumulativeTemporality, DataPoints: []metricdata.DataPoint[int64]{
			{Attributes: attribute.NewSet(backend), Value: 1},
			{Attributes: attribute.NewSet(backend, attribute.String("locker.group", "\uFFFD")), Value: 1},
		}}
		metricdatatest.AssertAggregationsEqual(t, want, m.collect(t)["locker.lease.active"].Data, metricdatatest.IgnoreTimestamp())
	})
}

// The end of the longest hold is no deadline that a renewal moves, so it isn't slack.
func TestSlackOfALongestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, m := membackend.New(membackend.WithDefaultTTL(time.Minute)), newMeters()
		defer l.Close()
		instrument(t, l, otellocker.WithMeterProvider(m))
		lease := acquire(t, l, "name", locker.WithMaxHold(10*time.Minute))
		<-lease.Done()
		got := m.collect(t)
		slack := got["locker.renew.slack"].Data.(metricdata.Histogram[float64]).DataPoints[0]
		renewed := got["locker.renew.duration"].Data.(metricdata.Histogram[float64]).DataPoints[0]
		if least, _ := slack.Min.Value(); least < .65 || slack.Count == 0 || slack.Count >= renewed.Count {
			t.Errorf("the least slack of %d is %v, of %d renewals", slack.Count, least, renewed.Count)
		}
	})
}

// A lease from before Instrument has metrics and no span, and stop ends both.
func TestInstrumentLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, m, p := membackend.New(membackend.WithDefaultTTL(ttl)), newMeters(), newTracers()
		defer l.Close()
		first := acquire(t, l, "first")
		stop := instrument(t, l, otellocker.WithMeterProvider(m), otellocker.WithTracerProvider(p), otellocker.WithHoldSpans())
		second := acquire(t, l, "second")
		if err := first.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = first.Release(t.Context())
		synctest.Wait()
		counts := series(t, m)
		for _, name := range []string{"locker.acquire.duration", "locker.renew.slack", "locker.lease.duration", "locker.release.duration", "locker.lease.active"} {
			if counts[name] != 1 {
				t.Errorf("%s has %d series, want 1", name, counts[name])
			}
		}
		stop()
		stop()
		_ = second.Release(t.Context())
		acquire(t, l, "third")
		synctest.Wait()
		got := m.collect(t)
		if n := got["locker.release.duration"].Data.(metricdata.Histogram[float64]).DataPoints[0].Count; n != 1 {
			t.Errorf("%d releases were recorded, want the one before stop", n)
		}
		if _, ok := got["locker.lease.active"]; ok {
			t.Error("the locker is looked at after stop")
		}
		if n := len(p.ended("locker.acquire")); n != 1 {
			t.Errorf("%d spans, want 1", n)
		}
	})
}

// opaque is a locker that doesn't say what it does.
type opaque struct{ locker.Locker }

func TestInstrumentRefuses(t *testing.T) {
	l := membackend.New()
	defer l.Close()
	for what, opt := range map[string]otellocker.Option{
		"meter provider":  otellocker.WithMeterProvider(nil),
		"tracer provider": otellocker.WithTracerProvider(nil),
		"function":        otellocker.WithNames(nil),
		"holder links":    otellocker.WithHolderLinks(0),
	} {
		if _, err := otellocker.Instrument(l, opt); !errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), what) {
			t.Errorf("Instrument with a bad %s = %v", what, err)
		}
	}
	m := newMeters()
	if _, err := otellocker.Instrument(opaque{l}, otellocker.WithMeterProvider(m)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Instrument = %v, want ErrUnsupported", err)
	}
}

// The global provider can be set once only for instruments that exist already.
var (
	global    = newMeters()
	setGlobal = sync.OnceFunc(func() { otel.SetMeterProvider(global) })
	claimRuns int64 // of TestClaim, in this process
)

func TestClaim(t *testing.T) {
	setGlobal()
	claimRuns++
	var storage fence.Memory
	ctx := t.Context()
	if err := otellocker.CountClaim(ctx, storage.Claim(ctx, "invoices/42", 7)); err != nil {
		t.Errorf("Claim = %v", err)
	}
	for range 2 {
		if err := otellocker.CountClaim(ctx, storage.Claim(ctx, "invoices/42", 6)); !errors.Is(err, fence.ErrStale) {
			t.Errorf("Claim = %v, want ErrStale", err)
		}
	}
	if err := otellocker.CountClaim(ctx, storage.Claim(ctx, "", 7)); !errors.Is(err, locker.ErrName) {
		t.Errorf("Claim = %v, want ErrName", err)
	}
	point := func(outcome string, n int64) metricdata.DataPoint[int64] {
		return metricdata.DataPoint[int64]{Attributes: attribute.NewSet(attribute.String("locker.outcome", outcome)), Value: n * claimRuns}
	}
	want := metricdata.Metrics{
		Name: "locker.fence.claims", Unit: "{claim}", Description: "Claims at fenced storages, by what became of them.",
		Data: metricdata.Sum[int64]{
			Temporality: metricdata.CumulativeTemporality, IsMonotonic: true,
			DataPoints: []metricdata.DataPoint[int64]{point("ok", 1), point("stale", 2), point("error", 1)},
		},
	}
	metricdatatest.AssertEqual(t, want, global.collect(t)["locker.fence.claims"], metricdatatest.IgnoreTimestamp(), metricdatatest.IgnoreExemplars())
}
