// Package otellocker gives OpenTelemetry what a locker does, as metrics and spans.
//
//	l, err := locker.Open(ctx, os.Getenv("LOCKER_URL"))
//	…
//	stop, err := otellocker.Instrument(l)
//
// The metrics, their units and attributes are a table in docs/observability.md. The names of locks
// are on spans, and never on metrics: names carry ids (invoices/42), and each name would be a series
// of its own. [WithNames] puts a group of names on metrics (invoices).
//
// Each call of Acquire is a span, locker.acquire. Requests of an instrumented client library become
// its children where they are sent for one acquisition alone. A span that had to wait links to the
// span of the lease that it waited for, where that is of the same Locker. [WithHolderLinks] does so
// between processes.
//
// [CountClaim] counts claims at a fenced storage.
package otellocker

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencedlock/locker"
)

// scope is the name under which meters and tracers are asked for.
const scope = "github.com/fencedlock/locker/otellocker"

// kinds are the events that become metrics or are noted in spans.
const kinds = locker.EventWaiting | locker.EventGranted | locker.EventRefused | locker.EventRequeued |
	locker.EventAbandoned | locker.EventRenewed | locker.EventRenewalFailed | locker.EventLost |
	locker.EventReleased | locker.EventRemoving | locker.EventRemoved | locker.EventClosed

// Instrument records what l does as metrics and spans, from now on. Call it once for a locker, when
// the locker is opened: an acquisition that began before has no span.
//
// Two lockers that record with the same meter provider and have the same attributes are one series:
// their counts add up, and for the oldest wait, hold and removal the value of one of them is shown.
// Give them different attributes then ([WithAttributes]).
//
// stop ends the recording. It may be called twice. Spans of acquisitions and leases that haven't ended by then
// are not exported.
//
// The error matches [errors.ErrUnsupported] when l is not [locker.Observable], and
// [locker.ErrOption] when an option is invalid. Other errors are the meter provider's.
func Instrument(l locker.Locker, opts ...Option) (stop func(), err error) {
	c := config{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, opt := range opts {
		opt(&c)
	}
	if c.err != nil {
		return nil, fmt.Errorf("otellocker: %w", c.err)
	}
	o := newObserver(l, &c)
	meter := c.meters.Meter(scope)
	if o.instruments, err = newInstruments(meter, o.looks.sets); err != nil {
		return nil, fmt.Errorf("otellocker: %w", err)
	}
	if c.group == nil {
		o.instruments.begin(context.Background(), "")
	}
	detach, err := locker.Observe(l, o, kinds)
	if err != nil {
		return nil, err
	}
	unregister, err := o.looks.register(meter)
	if err != nil {
		detach()
		return nil, fmt.Errorf("otellocker: %w", err)
	}
	beginClaims()
	return func() {
		detach()
		unregister()
		o.spans.links.stop()
	}, nil
}

// Option changes what [Instrument] makes.
type Option func(*config)

type config struct {
	meters     metric.MeterProvider
	tracers    trace.TracerProvider
	attributes []attribute.KeyValue
	group      func(name string) string // nil: no groups
	holdSpans  bool
	linkAfter  time.Duration
	err        error
}

func (c *config) fail(text string) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s", locker.ErrOption, text)
	}
}

// WithMeterProvider records metrics with p. Without it, they are recorded with the global provider.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(c *config) {
		if p == nil {
			c.fail("the meter provider is nil")
		}
		c.meters = p
	}
}

// WithTracerProvider makes spans with p. Without it, they are made with the global provider.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) {
		if p == nil {
			c.fail("the tracer provider is nil")
		}
		c.tracers = p
	}
}

// WithAttributes puts attributes on all metrics and spans, for example
// attribute.String("locker.instance", "billing").
func WithAttributes(attrs ...attribute.KeyValue) Option {
	return func(c *config) { c.attributes = append(c.attributes, attrs...) }
}

// WithNames puts the attribute locker.group on metrics: what group returns for the lock's whole name,
// with all prefixes. For example, it returns "invoices" for "invoices/42". The empty string is no
// group, and the attribute is left out.
//
// After 100 different groups, further ones are called _other, and OpenTelemetry's error handler
// gets one error that says so. group must be safe for concurrent use and quick, and must not panic.
func WithNames(group func(name string) string) Option {
	return func(c *config) {
		if group == nil {
			c.fail("the function for groups of names is nil")
		}
		c.group = group
	}
}

// WithHoldSpans makes a span of each lease as well, locker.hold, from its grant to its end. It has
// the same parent as the span of the acquisition, and links to that. Failed renewals and the loss
// are its events. A span of hours is exported when it ends, or never if the process ends before. A
// lease whose removal Close gives up has a span until the first try to remove it has failed, or until
// the end of Close.
func WithHoldSpans() Option { return func(c *config) { c.holdSpans = true } }

// WithHolderLinks links the span of a call that has waited for longer than after to the span in which
// another process has acquired the lock. For that it asks the service once, with [locker.Inspect], as a
// child of the waiter's span; waiters for one lock that ask at the same time ask together. The holder must
// be instrumented, too, and its span sampled: its traceparent is part of what it says of itself on the
// service (see [locker.WithHolder]), with or without this option in the holder. Where the service can't
// tell, there is no link. A call that waits for a permit asks about each slot that it waits for. after must
// be positive.
//
// Links to holders of the same Locker need neither this option nor a request.
func WithHolderLinks(after time.Duration) Option {
	return func(c *config) {
		if after <= 0 {
			c.fail("holder links after " + after.String() + ": want a positive time, such as 1s")
		}
		c.linkAfter = after
	}
}

// observer makes metrics and spans of events. The engine calls Observe from one goroutine at a time,
// and Begin from any.
type observer struct {
	groups      *groups
	instruments *instruments
	looks       *looks
	spans       *spans
}

func newObserver(l locker.Locker, c *config) *observer {
	g := &groups{of: c.group, known: make(map[string]bool)}
	return &observer{
		groups: g,
		looks:  &looks{l: l, groups: g, sets: newSets(l.Guarantees().Backend, c.attributes)},
		spans:  newSpans(l, c),
	}
}

// acquisition is what is known of a call of Acquire and of its lease. The contexts of their events
// have it. After Begin only Observe reads and writes it.
type acquisition struct {
	trail
	maxHold  time.Duration
	granted  time.Time
	removing time.Time // when a try to remove the lease wasn't confirmed for the first time; zero: none was
}

// acquisitionKey is a key of contexts. Several observers may be attached.
type acquisitionKey struct{ o *observer }

// Begin notes the beginning of an acquisition, and starts its span.
func (o *observer) Begin(ctx context.Context, r locker.Request) context.Context {
	a := &acquisition{maxHold: r.MaxHold}
	ctx = o.spans.begin(ctx, &a.trail, r)
	return context.WithValue(ctx, acquisitionKey{o}, a)
}

// Observe records an event.
func (o *observer) Observe(ctx context.Context, e locker.Event) {
	a, _ := ctx.Value(acquisitionKey{o}).(*acquisition)
	if a == nil {
		a = new(acquisition) // it began before this observer was attached, so it has no span
	}
	switch e.Kind {
	case locker.EventGranted:
		a.granted = e.Time
	case locker.EventRemoving:
		if a.removing.IsZero() && e.Token != 0 { // an acquisition that was requeued has no token
			a.removing = e.Time
		}
	case locker.EventClosed:
		o.spans.closed(&e)
		return
	}
	o.instruments.record(ctx, o.groups.group(e.Name), a, &e)
	o.spans.record(a, &e) //nolint:contextcheck // a look for a link is no part of the event
}
