package otellocker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/verdict"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/otellocker"
)

// captured is a locker that hands out its observer, so that a benchmark can call it without an engine.
type captured struct {
	locker.Locker
	tracer locker.Tracer
}

func (c *captured) Observe(o locker.Observer, _ locker.EventKind) (stop func(), err error) {
	c.tracer = o.(locker.Tracer)
	return func() {}, nil
}

func (c *captured) Stats() (locker.Stats, bool)        { return locker.StatsOf(c.Locker) }
func (c *captured) Leases() ([]locker.LeaseInfo, bool) { return locker.Leases(c.Locker) }

// events are one of each kind.
func events() []locker.Event {
	const token, ttl, took = 42, 30 * time.Second, time.Millisecond
	// As the engine makes it.
	lost := fmt.Errorf("%w: %w", locker.ErrLost, &verdict.Loss{Class: "service_failed", Err: errService})
	list := []locker.Event{
		{Kind: locker.EventWaiting, Ahead: 1},
		{Kind: locker.EventGranted, Took: took, Contended: true, Token: token, TTL: ttl},
		{Kind: locker.EventRenewed, Took: took, Left: 20 * time.Second, Token: token, TTL: ttl},
		{Kind: locker.EventRenewalFailed, Took: took, Left: 15 * time.Second, Token: token, TTL: ttl, Cause: errService},
		{Kind: locker.EventReleased, Took: took, Held: time.Minute, Token: token, TTL: ttl},
		{Kind: locker.EventRefused, Took: took, Cause: locker.ErrHeld},
		{Kind: locker.EventRequeued, Cause: errService},
		{Kind: locker.EventAbandoned, Token: token},
		{Kind: locker.EventLost, Held: time.Minute, Token: token, TTL: ttl, Cause: lost},
		{Kind: locker.EventRemoving, Tries: 1, Token: token, TTL: ttl, Cause: errService},
		{Kind: locker.EventRemoved, Took: took, Token: token, TTL: ttl},
	}
	for i := range list {
		list[i].Time, list[i].Backend, list[i].Name, list[i].ID = time.Now(), "mem", "invoices/42", 7
	}
	return list
}

// capture instruments a locker with metrics, and without spans.
func capture(t testing.TB) (observe locker.Tracer, ctx context.Context) {
	l := membackend.New()
	t.Cleanup(func() { _ = l.Close() })
	c := &captured{Locker: l}
	instrument(t, c, otellocker.WithMeterProvider(newMeters()), otellocker.WithTracerProvider(noop.NewTracerProvider()),
		otellocker.WithNames(firstPart))
	return c.tracer, c.tracer.Begin(context.Background(), locker.Request{Name: "invoices/42"})
}

// TestRecordingAllocatesNothing is of the steady state: each series exists.
func TestRecordingAllocatesNothing(t *testing.T) {
	o, ctx := capture(t)
	for _, e := range events() {
		o.Observe(ctx, e)
		if n := testing.AllocsPerRun(100, func() { o.Observe(ctx, e) }); n > 0 {
			t.Errorf("%v: %v allocations, want none", e.Kind, n)
		}
	}
}

func BenchmarkInstrumented(b *testing.B) {
	for _, e := range events() {
		b.Run(e.Kind.String(), func(b *testing.B) {
			o, ctx := capture(b)
			b.ReportAllocs()
			for b.Loop() {
				o.Observe(ctx, e)
			}
		})
	}
}

// BenchmarkAcquireRelease shows what metrics and spans that aren't sampled add to a lock in memory.
func BenchmarkAcquireRelease(b *testing.B) {
	for _, instrumented := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "instrumented"}[instrumented], func(b *testing.B) {
			l := membackend.New()
			defer l.Close()
			if instrumented {
				instrument(b, l, otellocker.WithMeterProvider(newMeters()), otellocker.WithTracerProvider(noop.NewTracerProvider()))
			}
			b.ReportAllocs()
			for b.Loop() {
				_ = acquire(b, l, "invoices/42").Release(context.Background())
			}
		})
	}
}
