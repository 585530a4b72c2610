package otellocker_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/otellocker"
)

// Metrics and spans of a Locker. A program leaves the provider out and so uses the global one.
// WithNames makes a group of the names of locks, because each name would be a series of its own.
func ExampleInstrument() {
	ctx := context.Background()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	l := membackend.New()
	stop, err := otellocker.Instrument(l, otellocker.WithMeterProvider(provider), otellocker.WithNames(func(name string) string {
		group, _, _ := strings.Cut(name, "/")
		return group
	}))
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	err = locker.Do(ctx, l, "invoices/42", func(context.Context, locker.Lease) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
	l.Close() // waits until the events are recorded

	var collected metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &collected); err != nil {
		log.Fatal(err)
	}
	for _, m := range collected.ScopeMetrics[0].Metrics {
		if h, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == "locker.acquire.duration" {
			group, _ := h.DataPoints[0].Attributes.Value("locker.group")
			fmt.Println(m.Name, m.Unit, group.AsString(), h.DataPoints[0].Count)
		}
	}
	// Output: locker.acquire.duration s invoices 1
}

// CountClaim counts the claims at a storage by their results. "stale" says that the fence has saved
// the data. The claim itself is made by a package below fence.
func ExampleCountClaim() {
	_ = func(ctx context.Context, claim func(context.Context, locker.Token) error, lease locker.Lease) error {
		if err := otellocker.CountClaim(ctx, claim(ctx, lease.Token())); err != nil {
			return err
		}
		return nil // read and write
	}
}
