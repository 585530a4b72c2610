package otellocker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/otellocker"
)

func TestMetricsOfKeptLeases(t *testing.T) {
	for group, opts := range map[string][]otellocker.Option{"": nil, "invoices": {otellocker.WithNames(firstPart)}} {
		synctest.Test(t, func(t *testing.T) {
			m := newMeters()
			l := membackend.New()
			instrument(t, l, append(opts, otellocker.WithMeterProvider(m))...)
			lease := acquire(t, l, "invoices/1", locker.WithMinHold(time.Minute))
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Second)
			now := m.collect(t)
			wantPoint(t, now, "locker.lease.kept", group, int64(1))
			wantPoint(t, now, "locker.lease.oldest_kept", group, 20.0)
			wantPoint(t, now, "locker.lease.active", group, int64(0))
			wantPoint(t, now, "locker.removal.pending", group, int64(0))
			time.Sleep(time.Minute)
			now = m.collect(t)
			wantPoint(t, now, "locker.lease.kept", group, int64(0))
			wantPoint(t, now, "locker.lease.oldest_kept", group, 0.0)
			_ = l.Close()
		})
	}
}

// The series of names without a group shows zero in the end, and not its last value.
func TestMetricsOfNamesWithoutAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeters()
		l := membackend.New()
		instrument(t, l, otellocker.WithMeterProvider(m), otellocker.WithNames(func(string) string { return "" }))
		lease := acquire(t, l, "job")
		wantPoint(t, m.collect(t), "locker.lease.active", "", int64(1))
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantPoint(t, m.collect(t), "locker.lease.active", "", int64(0))
		_ = l.Close()
	})
}

// wantPoint fails the test unless a metric of the present state has one value, of that group.
func wantPoint(t *testing.T, all map[string]metricdata.Metrics, name, group string, want any) {
	t.Helper()
	var got any
	var attrs attribute.Set
	switch data := all[name].Data.(type) {
	case metricdata.Sum[int64]:
		if len(data.DataPoints) == 1 {
			got, attrs = data.DataPoints[0].Value, data.DataPoints[0].Attributes
		}
	case metricdata.Gauge[float64]:
		if len(data.DataPoints) == 1 {
			got, attrs = data.DataPoints[0].Value, data.DataPoints[0].Attributes
		}
	}
	of, _ := attrs.Value("locker.group")
	if got != want || of.AsString() != group {
		t.Errorf("%s = %v of the group %q, want %v of %q", name, all[name].Data, of.AsString(), want, group)
	}
}
