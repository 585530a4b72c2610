package redis

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/otellocker"
	"github.com/fencedlock/locker/redisbackend"
)

// instrumentation is a hook of go-redis that starts a span for each command, as redisotel does.
type instrumentation struct {
	tracer trace.Tracer

	mu      sync.Mutex
	parents map[trace.SpanID]int // how many commands each span has below it
}

func (i *instrumentation) start(ctx context.Context) trace.Span {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.parents[trace.SpanContextFromContext(ctx).SpanID()]++
	_, span := i.tracer.Start(ctx, "redis")
	return span
}

func (i *instrumentation) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (i *instrumentation) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		defer i.start(ctx).End()
		return next(ctx, cmd)
	}
}

func (i *instrumentation) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		defer i.start(ctx).End()
		return next(ctx, cmds)
	}
}

// The spans of an instrumented client are below the span of the acquisition.
func TestRedisSpansBelowAcquire(t *testing.T) {
	itest.NeedServers(t)
	ended := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(ended))
	hook := &instrumentation{tracer: provider.Tracer("redis"), parents: make(map[trace.SpanID]int)}
	client := redis.NewClient(&redis.Options{
		Addr: Standalone(t).Nodes[0].Addr, Password: Password,
		ContextTimeoutEnabled: true, // otherwise a copy of the client is used, which has no hooks
	})
	defer client.Close()
	client.AddHook(hook)
	l, err := redisbackend.New(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	stop, err := otellocker.Instrument(l, otellocker.WithTracerProvider(provider))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	lease, err := l.Acquire(t.Context(), step.LockName(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil { // it delivers what has happened
		t.Fatal(err)
	}
	hook.mu.Lock()
	defer hook.mu.Unlock()
	var acquired []sdktrace.ReadOnlySpan
	for _, span := range ended.Ended() {
		if span.Name() == "locker.acquire" {
			acquired = append(acquired, span)
		}
	}
	if len(acquired) != 1 {
		t.Fatalf("%d spans locker.acquire, want 1", len(acquired))
	}
	if n := hook.parents[acquired[0].SpanContext().SpanID()]; n == 0 || acquired[0].SpanKind() != trace.SpanKindClient {
		t.Errorf("the span, of the kind %v, has %d commands below it, want some", acquired[0].SpanKind(), n)
	}
}
