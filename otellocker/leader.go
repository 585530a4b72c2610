package otellocker

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fencedlock/locker/leader"
)

const keyElection = attribute.Key("locker.election")

// Leader returns an observer for a candidate of package leader, which records who leads:
//
//	leader.Run(ctx, l, "controllers/billing", lead, leader.WithObserver(otellocker.Leader("billing")))
//
// The metric locker.leader is 1 from an election until the function that leads has returned and the lock is
// given back or lost, and else 0. locker.leader.terms counts elections. Both have the attribute
// locker.election, so elections need names of their own. The sum of locker.leader over all processes is the
// number of leaders; while one overstays, or its lock is being given back, it may be larger. It takes the
// options of [Instrument], of which only WithMeterProvider and WithAttributes have an effect. Acquisitions
// that fail are counted by Instrument, and not here.
//
// Make one observer for each candidate. OpenTelemetry's error handler gets the errors of the meter provider and
// of invalid options.
func Leader(election string, opts ...Option) leader.Observer {
	c := config{meters: otel.GetMeterProvider()}
	for _, opt := range opts {
		opt(&c)
	}
	if c.err != nil {
		otel.Handle(c.err)
		c.meters = otel.GetMeterProvider()
	}
	meter := c.meters.Meter(scope)
	leads, err := meter.Int64Gauge("locker.leader", metric.WithUnit("{leader}"),
		metric.WithDescription("1 while this process leads, by election."))
	if err != nil {
		otel.Handle(err)
	}
	terms, err := meter.Int64Counter("locker.leader.terms", metric.WithUnit("{term}"),
		metric.WithDescription("Terms of this process as the leader, by election."))
	if err != nil {
		otel.Handle(err)
	}
	set := attribute.NewSet(append([]attribute.KeyValue{keyElection.String(election)}, c.attributes...)...)
	o := &leaderObserver{leads: leads, terms: terms}
	o.record, o.add = []metric.RecordOption{metric.WithAttributeSet(set)}, []metric.AddOption{metric.WithAttributeSet(set)}
	o.leads.Record(context.Background(), 0, o.record...)
	o.terms.Add(context.Background(), 0, o.add...) // so that the first one is an increase
	return o
}

// leaderObserver records the terms of one candidate.
type leaderObserver struct {
	leads  metric.Int64Gauge
	terms  metric.Int64Counter
	record []metric.RecordOption
	add    []metric.AddOption
}

func (o *leaderObserver) Observe(ctx context.Context, e leader.Event) {
	switch e.Kind {
	case leader.EventElected:
		o.terms.Add(ctx, 1, o.add...)
		o.leads.Record(ctx, 1, o.record...)
	case leader.EventEnded:
		o.leads.Record(ctx, 0, o.record...)
	}
}
