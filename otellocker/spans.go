package otellocker

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencedlock/locker"
)

// Attributes of spans and of their events. Attributes of metrics are in attributes.go.
const (
	keyName    = attribute.Key("locker.name")
	keySlot    = attribute.Key("locker.slot") // of a permit, and -1 of the line; left out of a lock
	keyTTL     = attribute.Key("locker.ttl")  // in seconds
	keyToken   = attribute.Key("locker.token")
	keyAhead   = attribute.Key("locker.ahead")
	keyTries   = attribute.Key("locker.tries")
	keyMessage = attribute.Key("exception.message")
)

// spans makes spans of acquisitions, and of leases if that is wanted.
type spans struct {
	tracer  trace.Tracer
	kind    trace.SpanKind
	base    []attribute.KeyValue
	hold    bool
	holders *holders
	open    *openSpans
	links   *links
}

func newSpans(l locker.Locker, c *config) *spans {
	g := l.Guarantees()
	kind := trace.SpanKindClient
	if g.RoundTrips == 0 {
		kind = trace.SpanKindInternal
	}
	return &spans{
		tracer:  c.tracers.Tracer(scope),
		kind:    kind,
		base:    append(c.attributes[:len(c.attributes):len(c.attributes)], keyBackend.String(g.Backend)),
		hold:    c.holdSpans,
		holders: &holders{l: l, of: make(map[subject]holder)},
		open:    &openSpans{l: l, of: make(map[uint64]*acquisition)},
		links:   newLinks(l, c.linkAfter),
	}
}

// trail is the spans of an acquisition and its lease.
type trail struct {
	parent  context.Context //nolint:containedctx // of the span of the lease; nil: there is none
	acquire trace.Span      // nil: the acquisition began before the observer was attached
	current *spanContext    // the context with that span; nil: the span isn't recorded
	lease   trace.Span      // nil: there is no span of the lease
	began   time.Time
	look    *time.Timer // for a link to the holder; nil: none is planned
}

func (s *spans) begin(ctx context.Context, t *trail, r locker.Request) context.Context {
	if s.hold {
		t.parent = context.WithoutCancel(ctx)
	}
	t.began = time.Now()
	traced, span := s.tracer.Start(ctx, "locker.acquire", trace.WithSpanKind(s.kind), trace.WithAttributes(s.attributes(r.Name, r.Slot)...))
	t.acquire = span
	if r.TTL > 0 {
		t.acquire.SetAttributes(keyTTL.Float64(r.TTL.Seconds()))
	}
	traced = withTrace(traced, span.SpanContext())
	if !span.IsRecording() {
		return traced
	}
	t.current = newSpanContext(ctx, traced)
	return t.current
}

func (s *spans) attributes(name string, slot int, more ...attribute.KeyValue) []attribute.KeyValue {
	attrs := append(s.base[:len(s.base):len(s.base)], keyName.String(name))
	if slot != 0 {
		attrs = append(attrs, keySlot.Int(slot))
	}
	return append(attrs, more...)
}

// record notes an event in the spans.
func (s *spans) record(a *acquisition, e *locker.Event) {
	if a.acquire == nil {
		return
	}
	switch e.Kind {
	case locker.EventWaiting:
		s.waiting(a, e)
	case locker.EventRequeued:
		if !a.acquire.IsRecording() {
			return
		}
		s.event(a.acquire, e, "requeued", keyMessage.String(e.Cause.Error()))
	case locker.EventGranted:
		s.granted(a, e)
	case locker.EventRefused:
		s.refused(a, e)
	case locker.EventRenewalFailed:
		if a.lease != nil {
			s.event(a.lease, e, "renewal failed", keyTries.Int(e.Tries), keyMessage.String(e.Cause.Error()))
		}
	case locker.EventLost, locker.EventReleased:
		s.holders.remove(subjectOf(e), e.ID)
		s.ended(a, e)
	}
}

func (s *spans) event(span trace.Span, e *locker.Event, name string, attrs ...attribute.KeyValue) {
	span.AddEvent(name, trace.WithTimestamp(e.Time), trace.WithAttributes(attrs...))
}

// end ends a span. Where it isn't recorded, nothing is allocated.
func end(span trace.Span, at time.Time) {
	if span.IsRecording() {
		span.End(trace.WithTimestamp(at))
	} else {
		span.End()
	}
}

// waiting links the span to the one of the lease that is waited for. If that isn't of this Locker, the
// service may tell later.
func (s *spans) waiting(a *acquisition, e *locker.Event) {
	if !a.acquire.IsRecording() {
		return
	}
	s.event(a.acquire, e, "waiting", keyAhead.Int(e.Ahead))
	if holder, ok := s.holders.find(subjectOf(e)); ok {
		a.acquire.AddLink(trace.Link{SpanContext: holder})
		return
	}
	if e.Slot != 0 {
		return // nothing tells who holds a slot by its name
	}
	a.look = s.links.plan(a.acquire, e.Name, a.began)
}

func (s *spans) granted(a *acquisition, e *locker.Event) {
	a.endLook()
	if a.acquire.IsRecording() {
		a.acquire.SetAttributes(keyToken.Int64(int64(e.Token)), keyTTL.Float64(e.TTL.Seconds()),
			keyContended.Bool(e.Contended), keyOutcome.String(locker.OutcomeGranted))
	}
	end(a.acquire, e.Time)
	if a.current != nil {
		a.acquire = a.current.forgetSpan()
	}
	if a.acquire.SpanContext().IsValid() {
		s.holders.add(subjectOf(e), e.ID, a.acquire)
	}
	if a.parent != nil {
		_, a.lease = s.tracer.Start(a.parent, "locker.hold", trace.WithTimestamp(e.Time),
			trace.WithLinks(trace.Link{SpanContext: a.acquire.SpanContext()}),
			trace.WithAttributes(s.attributes(e.Name, e.Slot, keyToken.Int64(int64(e.Token)), keyTTL.Float64(e.TTL.Seconds()))...))
		s.open.add(e.ID, a)
	}
}

// endLook cancels the look for a waiter that doesn't wait any more.
func (t *trail) endLook() {
	if t.look != nil {
		t.look.Stop()
	}
}

// refused ends the span of an acquisition. Only a failure of the service is an error: the others are
// answers.
func (s *spans) refused(a *acquisition, e *locker.Event) {
	a.endLook()
	if a.acquire.IsRecording() {
		outcome := locker.OutcomeOf(e.Cause)
		a.acquire.SetAttributes(keyOutcome.String(outcome))
		if outcome == locker.OutcomeError {
			a.acquire.SetAttributes(keyErrorType.String(errorType(e.Cause)))
			a.acquire.SetStatus(codes.Error, e.Cause.Error())
		}
	}
	end(a.acquire, e.Time)
}

// ended ends the span of a lease at the moment at which the lease ended, which is earlier than the
// event when its removal took time.
func (s *spans) ended(a *acquisition, e *locker.Event) {
	if a.lease == nil {
		return
	}
	if e.Kind == locker.EventLost && a.lease.IsRecording() {
		s.event(a.lease, e, "lost", keyCause.String(locker.LossOf(e.Cause)))
		a.lease.SetStatus(codes.Error, e.Cause.Error())
	}
	end(a.lease, a.granted.Add(e.Held))
	delete(s.open.of, e.ID)
}

// closed ends what is left when Close is done.
func (s *spans) closed(e *locker.Event) {
	s.open.endAll(e.Time)
	clear(s.holders.of)
}
