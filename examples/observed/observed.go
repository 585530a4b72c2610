package main

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/observe"
	"github.com/fencedlock/locker/otellocker"
)

// observed attaches a log and metrics to l, and returns the pages that show it.
func observed(l locker.Locker, log *slog.Logger) (pages http.Handler, stop func(), err error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, nil, err
	}
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))

	stopMetrics, err := otellocker.Instrument(l, otellocker.WithNames(firstPart))
	if err != nil {
		return nil, nil, err
	}
	stopLog, err := locker.Observe(l, observe.Slog(log.Handler()), 0)
	if err != nil {
		stopMetrics()
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/debug/locks", observe.Debug(map[string]locker.Locker{"observed": l}))
	return mux, func() { stopLog(); stopMetrics() }, nil
}

// firstPart is the group of a lock's name: "invoices" for "invoices/42".
func firstPart(name string) string {
	group, _, _ := strings.Cut(name, "/")
	return group
}
