package otellocker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/fencedlock/locker/leader"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/otellocker"
)

// TestLeader compares both metrics of an election with what was recorded, in each of its states.
func TestLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := membackend.NewServer(), newMeters()
		l := membackend.New(membackend.WithServer(s))
		defer l.Close()
		o := otellocker.Leader("billing", otellocker.WithMeterProvider(m), otellocker.WithAttributes(attribute.String("locker.instance", "test")))
		want := func(leads, terms int64) {
			t.Helper()
			synctest.Wait()
			got := m.collect(t)
			for _, want := range wantedOfLeader(leads, terms) {
				metricdatatest.AssertEqual(t, want, got[want.Name], metricdatatest.IgnoreTimestamp(), metricdatatest.IgnoreExemplars())
				delete(got, want.Name)
			}
			if len(got) > 0 {
				t.Errorf("metrics that are not expected: %v", got)
			}
		}
		want(0, 0)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- leader.Run(ctx, l, "office", func(ctx context.Context, _ leader.Term) error {
				<-ctx.Done()
				time.Sleep(time.Second)
				return nil
			}, leader.WithObserver(o))
		}()
		want(1, 1)
		s.Expire("office")
		want(1, 1) // the function hasn't returned
		time.Sleep(time.Second)
		want(0, 1)
		time.Sleep(time.Second)
		want(1, 2)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v", err)
		}
		want(0, 2)
	})
}

// wantedOfLeader is what an observer of an election has recorded.
func wantedOfLeader(leads, terms int64) []metricdata.Metrics {
	attrs := attribute.NewSet(attribute.String("locker.election", "billing"), attribute.String("locker.instance", "test"))
	return []metricdata.Metrics{
		{Name: "locker.leader", Unit: "{leader}", Description: "1 while this process leads, by election.",
			Data: metricdata.Gauge[int64]{DataPoints: []metricdata.DataPoint[int64]{{Attributes: attrs, Value: leads}}}},
		counter("locker.leader.terms", "{term}", "Terms of this process as the leader, by election.", counted{attrs, terms}),
	}
}
