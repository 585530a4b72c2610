package otellocker_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/otellocker"
)

// follower is a tracer that gets the contexts of acquisitions and of their events.
type follower struct {
	begin   func(context.Context)
	observe func(context.Context, locker.Event)
}

func (f follower) Begin(ctx context.Context, _ locker.Request) context.Context {
	f.begin(ctx)
	return ctx
}

func (f follower) Observe(ctx context.Context, e locker.Event) { f.observe(ctx, e) }

const ofLeases = locker.EventGranted | locker.EventRenewed | locker.EventLost | locker.EventReleased

func follow(t *testing.T, l locker.Locker, f follower) {
	t.Helper()
	if _, err := locker.Observe(l, f, ofLeases); err != nil {
		t.Fatal(err)
	}
}

// callerKey is the key of a value that a caller puts into its context.
type callerKey struct{}

func isRecorded(ctx context.Context) bool {
	_, ok := trace.SpanFromContext(ctx).(sdktrace.ReadOnlySpan)
	return ok
}

// The span of an acquisition isn't kept after its end. Everything else in its context is.
func TestContextOfEventsAfterTheSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := membackend.NewServer(), newTracers()
		l := membackend.New(membackend.WithServer(s), membackend.WithDefaultTTL(ttl))
		defer l.Close()
		instrument(t, l, otellocker.WithTracerProvider(p))
		var begun trace.SpanContext
		var traceparent string
		seen := make(map[locker.EventKind]int)
		follow(t, l, follower{
			begin: func(ctx context.Context) {
				begun, traceparent = trace.SpanContextFromContext(ctx), locker.TraceFrom(ctx)
				if !begun.IsSampled() || traceparent == "" || !isRecorded(ctx) {
					t.Errorf("the span is %v and its traceparent %q", trace.SpanFromContext(ctx), traceparent)
				}
			},
			observe: func(ctx context.Context, e locker.Event) {
				seen[e.Kind]++
				if got := trace.SpanContextFromContext(ctx); !got.Equal(begun) {
					t.Errorf("%v: the span is %v, want %v", e.Kind, got, begun)
				}
				if got := locker.TraceFrom(ctx); got != traceparent {
					t.Errorf("%v: the traceparent is %q, want %q", e.Kind, got, traceparent)
				}
				if got := ctx.Value(callerKey{}); got != "caller" {
					t.Errorf("%v: the caller's value is %v", e.Kind, got)
				}
				if e.Kind != locker.EventGranted && isRecorded(ctx) {
					t.Errorf("%v: the span is kept", e.Kind)
				}
			},
		})

		ctx, _ := p.Tracer("test").Start(context.WithValue(t.Context(), callerKey{}, "caller"), "caller")
		for _, end := range []func(locker.Lease){
			func(lease locker.Lease) { _ = lease.Release(t.Context()) },
			func(lease locker.Lease) { s.Expire("invoices/1"); <-lease.Done() },
		} {
			lease, err := l.Acquire(ctx, "invoices/1")
			if err != nil {
				t.Fatal(err)
			}
			if err := lease.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			end(lease)
			synctest.Wait()
		}
		for kind, want := range map[locker.EventKind]int{
			locker.EventGranted: 2, locker.EventRenewed: 2, locker.EventReleased: 1, locker.EventLost: 1,
		} {
			if seen[kind] != want {
				t.Errorf("%d events %v, want %d", seen[kind], kind, want)
			}
		}
	})
}

// A context that comes from the one of a span ends with the caller's, and no goroutine waits for that.
func TestContextOfASpanEndsWithTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := membackend.New(membackend.WithDefaultTTL(ttl)), newTracers()
		defer l.Close()
		instrument(t, l, otellocker.WithTracerProvider(p))
		var inside context.Context
		var derived []context.Context
		derive := func(when string) {
			const many = 100
			before := runtime.NumGoroutine()
			for range many {
				ctx, cancel := context.WithCancel(inside)
				t.Cleanup(cancel)
				derived = append(derived, ctx)
			}
			if started := runtime.NumGoroutine() - before; started > many/2 { // others may start some
				t.Errorf("%s: %d contexts started %d goroutines", when, many, started)
			}
		}
		follow(t, l, follower{
			begin:   func(ctx context.Context) { inside = ctx; derive("before the grant") },
			observe: func(context.Context, locker.Event) {},
		})

		ctx, cancel := context.WithCancel(t.Context())
		lease, err := l.Acquire(ctx, "invoices/1")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if isRecorded(inside) {
			t.Error("the span is kept")
		}
		derive("after the grant")
		for _, ctx := range derived {
			if ctx.Err() != nil {
				t.Fatalf("a context has ended before the caller's: %v", ctx.Err())
			}
		}
		cancel()
		synctest.Wait()
		for i, ctx := range derived {
			if ctx.Err() == nil {
				t.Fatalf("context %d goes on without the caller's", i)
			}
		}
		_ = lease.Release(t.Context())
	})
}

// The engine's goroutines and the caller's read a context while the delivery of events replaces its span.
func TestContextIsReadWhileTheSpanEnds(t *testing.T) {
	l, p := membackend.New(membackend.WithDefaultTTL(ttl)), newTracers()
	defer l.Close()
	instrument(t, l, otellocker.WithTracerProvider(p))
	var readers sync.WaitGroup
	released := make(chan struct{}, 1)
	follow(t, l, follower{
		begin: func(ctx context.Context) {
			want, reading := trace.SpanContextFromContext(ctx), make(chan struct{})
			readers.Go(func() {
				close(reading)
				for range 1000 {
					if got := trace.SpanContextFromContext(ctx); !got.Equal(want) || ctx.Value(callerKey{}) != "caller" {
						t.Errorf("the span is %v, want %v", got, want)
						return
					}
					if !isRecorded(ctx) {
						return
					}
					runtime.Gosched()
				}
			})
			<-reading
		},
		observe: func(_ context.Context, e locker.Event) {
			if e.Kind == locker.EventReleased {
				released <- struct{}{}
			}
		},
	})
	ctx := context.WithValue(t.Context(), callerKey{}, "caller")
	for range 50 {
		lease, err := l.Acquire(ctx, "invoices/1")
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(ctx); err != nil {
			t.Fatal(err)
		}
		<-released
	}
	readers.Wait()
}
