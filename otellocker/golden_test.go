package otellocker_test

import (
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

var (
	acquireBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900}
	requestBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	holdBuckets    = []float64{.001, .01, .1, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400}
	slackBuckets   = []float64{0, .05, .1, .2, .3, .4, .5, .55, .6, .65, .7, .75, .8, 1}
)

// wanted is what play leaves.
func wanted() []metricdata.Metrics {
	const valid = 3600*.99 - .002
	return []metricdata.Metrics{
		histogram("locker.acquire.duration", "s", "How long calls of Acquire took, by what became of them.", acquireBuckets,
			observed(of("invoices", "locker.outcome", "granted", "locker.contended", false), .05, .05),
			observed(of("other", "locker.outcome", "granted", "locker.contended", false), .05),
			observed(of("invoices", "locker.outcome", "granted", "locker.contended", true), 4.02, 2),
			observed(of("invoices", "locker.outcome", "held"), .05),
			observed(of("invoices", "locker.outcome", "timeout"), 10),
			observed(of("invoices", "locker.outcome", "canceled"), 1),
			observed(of("reports", "locker.outcome", "error", "error.type", "*errors.errorString"), .05),
			observed(of("reports", "locker.outcome", "error", "error.type", "timeout"), .04),
			observed(of("reports", "locker.outcome", "canceled"), 240.01)),
		gauge("locker.acquire.oldest_wait", "How long the oldest call of Acquire has been under way.",
			map[string]float64{"invoices": 2.05, "other": 0, "reports": 0}),
		upDown("locker.acquire.waiting", "{acquisition}", "Calls of Acquire under way.",
			map[string]int64{"invoices": 1, "other": 0, "reports": 0}),
		counter("locker.acquire.requeued", "{acquisition}", "Acquisitions that were replaced while their caller waited.",
			counted{of("invoices"), 1}, counted{of("other"), 0}, counted{of("reports"), 0}),
		counter("locker.acquire.abandoned", "{lease}", "Grants that came after the caller had given up.",
			counted{of("invoices"), 0}, counted{of("other"), 0}, counted{of("reports"), 1}),
		gauge("locker.lease.oldest", "How long the oldest lease has been held.",
			map[string]float64{"invoices": 2.05, "other": 0, "reports": 0}),
		upDown("locker.lease.active", "{lease}", "Leases that are held.",
			map[string]int64{"invoices": 1, "other": 0, "reports": 0}),
		gauge("locker.lease.oldest_kept", "How long ago the oldest of the kept leases was released.",
			map[string]float64{"invoices": 0, "other": 0, "reports": 0}),
		upDown("locker.lease.kept", "{lease}", "Leases that were released, and whose minimum hold isn't over.",
			map[string]int64{"invoices": 0, "other": 0, "reports": 0}),
		histogram("locker.lease.duration", "s", "How long leases were held, by how they ended.", holdBuckets,
			observed(of("invoices", "locker.end", "released"), 75.15, 3),
			observed(of("invoices", "locker.end", "lost"), 2.03)),
		counter("locker.lease.lost", "{lease}", "Leases that were lost, by cause.", losses(of("invoices", "locker.cause", "revoked"))...),
		histogram("locker.renew.duration", "s", "How long the requests of renewals took.", requestBuckets,
			observed(of("invoices", "locker.outcome", "ok"), .05),
			observed(of("invoices", "locker.outcome", "error", "error.type", "*errors.errorString"), .05)),
		histogram("locker.renew.slack", "1", "Share of a lease's time that was left when its renewal was confirmed.", slackBuckets,
			observed(of("invoices"), (valid-60.1)/valid)),
		histogram("locker.release.duration", "s", "Time from the end of a lease or acquisition until its removal was confirmed.", requestBuckets,
			observed(of("invoices", "locker.outcome", "confirmed"), .05),
			observed(of("invoices", "locker.outcome", "late"), 5.03)),
		gauge("locker.removal.oldest", "For how long the oldest removal has been pending.",
			map[string]float64{"invoices": 0, "other": 2, "reports": 0}),
		upDown("locker.removal.pending", "{acquisition}", "Leases and acquisitions that are over, and whose removal isn't confirmed.",
			map[string]int64{"invoices": 0, "other": 1, "reports": 0}),
		counter("locker.events.dropped", "{event}", "Events that no observer got, because too many waited.", counted{of(""), 0}),
	}
}

// of is a set of attributes: those of all metrics of the scenario, a group, and pairs of keys and values.
func of(group string, pairs ...any) attribute.Set {
	attrs := []attribute.KeyValue{attribute.String("locker.backend", "mem"), attribute.String("locker.instance", "test")}
	if group != "" {
		attrs = append(attrs, attribute.String("locker.group", group))
	}
	for pair := range slices.Chunk(pairs, 2) {
		switch value := pair[1].(type) {
		case string:
			attrs = append(attrs, attribute.String(pair[0].(string), value))
		case bool:
			attrs = append(attrs, attribute.Bool(pair[0].(string), value))
		}
	}
	return attribute.NewSet(attrs...)
}

// observation is what a series of a histogram has recorded.
type observation struct {
	attrs  attribute.Set
	values []float64
}

func observed(attrs attribute.Set, values ...float64) observation { return observation{attrs, values} }

func histogram(name, unit, text string, bounds []float64, series ...observation) metricdata.Metrics {
	data := metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality}
	for _, s := range series {
		point := metricdata.HistogramDataPoint[float64]{
			Attributes: s.attrs, Count: uint64(len(s.values)), Bounds: bounds, BucketCounts: make([]uint64, len(bounds)+1),
			Min: metricdata.NewExtrema(slices.Min(s.values)), Max: metricdata.NewExtrema(slices.Max(s.values)),
		}
		for _, v := range s.values {
			i, _ := slices.BinarySearch(bounds, v)
			point.BucketCounts[i]++
			point.Sum += v
		}
		data.DataPoints = append(data.DataPoints, point)
	}
	return metricdata.Metrics{Name: name, Unit: unit, Description: text, Data: data}
}

// counted is what a series of a counter has counted.
type counted struct {
	attrs attribute.Set
	n     int64
}

// losses are all series of locker.lease.lost, of which one has counted a loss.
func losses(one attribute.Set) (list []counted) {
	for _, group := range []string{"invoices", "other", "reports"} {
		for _, cause := range []string{"service_failed", "service_silent", "process_late", "unproven", "not_renewed", "revoked", "broken", "max_hold"} {
			c := counted{attrs: of(group, "locker.cause", cause)}
			if c.attrs.Equals(&one) {
				c.n = 1
			}
			list = append(list, c)
		}
	}
	return list
}

func counter(name, unit, text string, series ...counted) metricdata.Metrics {
	data := metricdata.Sum[int64]{Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}
	for _, c := range series {
		data.DataPoints = append(data.DataPoints, metricdata.DataPoint[int64]{Attributes: c.attrs, Value: c.n})
	}
	return metricdata.Metrics{Name: name, Unit: unit, Description: text, Data: data}
}

func upDown(name, unit, text string, byGroup map[string]int64) metricdata.Metrics {
	data := metricdata.Sum[int64]{Temporality: metricdata.CumulativeTemporality}
	for group, n := range byGroup {
		data.DataPoints = append(data.DataPoints, metricdata.DataPoint[int64]{Attributes: of(group), Value: n})
	}
	return metricdata.Metrics{Name: name, Unit: unit, Description: text, Data: data}
}

func gauge(name, text string, byGroup map[string]float64) metricdata.Metrics {
	data := metricdata.Gauge[float64]{}
	for group, v := range byGroup {
		data.DataPoints = append(data.DataPoints, metricdata.DataPoint[float64]{Attributes: of(group), Value: v})
	}
	return metricdata.Metrics{Name: name, Unit: "s", Description: text, Data: data}
}
