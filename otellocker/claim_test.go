package otellocker_test

import (
	"testing"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/otellocker"
)

// The counter of claims is there, with zeros, before the first claim, so that a stale one is an increase. Claims are
// on the global provider, whatever else Instrument uses.
func TestClaimsBeginWithInstrument(t *testing.T) {
	setGlobal()
	l := membackend.New()
	defer l.Close()
	instrument(t, l, otellocker.WithMeterProvider(newMeters()))
	sum, _ := global.collect(t)["locker.fence.claims"].Data.(metricdata.Sum[int64])
	if len(sum.DataPoints) != 3 {
		t.Fatalf("the counter has the points %v, want one for each outcome", sum.DataPoints)
	}
	for _, point := range sum.DataPoints {
		if claimRuns == 0 && point.Value != 0 {
			t.Errorf("there was no claim, and the counter is %d", point.Value)
		}
	}
}
