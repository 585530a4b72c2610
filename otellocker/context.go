package otellocker

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/fencedlock/locker"
)

// spanContext is a context with a span. The engine keeps it for as long as the lease is held, because
// events have its values. A span with its attributes takes a kilobyte, so it is replaced when it has
// ended.
type spanContext struct {
	context.Context                                 // without the span
	values          atomic.Pointer[context.Context] // with the span, or with what replaces it
}

// newSpanContext returns a context that has the values of traced, which comes from ctx.
func newSpanContext(ctx, traced context.Context) *spanContext {
	c := &spanContext{Context: ctx}
	c.values.Store(&traced)
	return c
}

func (c *spanContext) Value(key any) any { return (*c.values.Load()).Value(key) }

// forgetSpan replaces the span by one that has its identity, and nothing else. Metrics and logs find
// the trace by it. The traceparent stays the same string, which the engine keeps as well.
func (c *spanContext) forgetSpan() trace.Span {
	values := locker.ContextWithTrace(c.Context, locker.TraceFrom(c))
	values = trace.ContextWithSpanContext(values, trace.SpanContextFromContext(c))
	c.values.Store(&values)
	return trace.SpanFromContext(values)
}
