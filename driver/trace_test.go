package driver_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// tracer is a watcher that adds something to the context.
type tracer struct {
	watcher
	begin func(ctx context.Context, r locker.Request) context.Context
}

func (t *tracer) Begin(ctx context.Context, r locker.Request) context.Context { return t.begin(ctx, r) }

type spanKey struct{}

// What Begin adds is seen by the driver, by the next tracer and by observers.
func TestTracer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
			if v := ctx.Value(spanKey{}); v != "name, twice" {
				t.Errorf("the driver sees %v", v)
			}
			return grant(l), nil
		}}
		l := open(t, f)
		first := &tracer{begin: func(ctx context.Context, r locker.Request) context.Context {
			if ctx.Value(byCaller{}) != true || r.MaxHold != time.Hour {
				t.Errorf("Begin is called with %+v", r)
			}
			return context.WithValue(ctx, spanKey{}, r.Name)
		}}
		second := &tracer{begin: func(ctx context.Context, _ locker.Request) context.Context {
			return context.WithValue(ctx, spanKey{}, ctx.Value(spanKey{}).(string)+", twice")
		}}
		stop := attach(t, l, first, 0)
		stopSecond := attach(t, l, second, 0)
		lease := mustAcquire(t, l, "name", locker.WithMaxHold(time.Hour))
		_ = lease.Release(t.Context())
		events := first.take()
		if len(events) != 2 {
			t.Fatalf("the events are %+v", events)
		}
		for _, e := range events {
			if v := e.ctx.Value(spanKey{}); v != "name, twice" || e.ctx.Value(byCaller{}) != true || e.ctx.Done() != nil {
				t.Errorf("%v: the context has %v, want what was added, the caller's values, and no end", e.Kind, v)
			}
		}
		stop()
		second.begin = func(ctx context.Context, _ locker.Request) context.Context {
			return context.WithValue(ctx, spanKey{}, "name, twice")
		}
		mustAcquire(t, l, "name", locker.WithMaxHold(time.Minute)) // the first would complain
		stopSecond()
		second.begin = func(ctx context.Context, _ locker.Request) context.Context {
			t.Error("Begin is called after stop")
			return ctx
		}
		f.acquire = nil
		mustAcquire(t, l, "name")
	})
}

// Whatever Begin returns, Acquire ends with the caller's context, and with no other.
func TestTracerDoesNotMakeACallDeaf(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for what, begin := range map[string]func(ctx context.Context) context.Context{
		"its argument":    func(ctx context.Context) context.Context { return ctx },
		"another context": func(context.Context) context.Context { return context.Background() },
		"one that never ends": func(ctx context.Context) context.Context {
			return context.WithValue(context.WithoutCancel(ctx), spanKey{}, 1)
		},
		"one that is over": func(context.Context) context.Context { return over },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				grants := make(chan func(*fakeLock) driver.Grant)
				l := open(t, &fake{acquire: queues(grants)})
				attach(t, l, &tracer{begin: func(ctx context.Context, _ locker.Request) context.Context { return begin(ctx) }}, 0)
				p := start(t, l, "name")
				p.waits()
				behind := start(t, l, "name")
				behind.waits()
				behind.cancel(nil)
				matches(t, "Acquire", behind.failed(), context.Canceled)
				p.cancel(errService)
				matches(t, "Acquire", p.failed(), context.Canceled, errService)
			})
		})
	}
}

// Begin comes before the call is known to the engine, so it may do anything, too.
func TestTracerThatCloses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := open(t, &fake{})
		tr := new(tracer)
		tr.begin = func(ctx context.Context, _ locker.Request) context.Context {
			_ = l.Close()
			return ctx
		}
		attach(t, l, tr, 0)
		began := time.Now()
		_, err := l.Acquire(t.Context(), "name")
		matches(t, "Acquire", err, locker.ErrClosed)
		if d := time.Since(began); d != 0 {
			t.Errorf("it took %v", d)
		}
		tr.wants(t, locker.Event{Kind: locker.EventClosed}, locker.Event{Kind: locker.EventRefused, ID: 1, Cause: locker.ErrClosed})
	})
}

// Begin isn't called once stop has returned, not even for a call that is under way. No context counts
// as the one before.
func TestTracerThatStopsAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := open(t, &fake{})
		var stop func()
		attach(t, l, &tracer{begin: func(context.Context, locker.Request) context.Context {
			stop()
			return nil
		}}, 0)
		stop = attach(t, l, &tracer{begin: func(ctx context.Context, _ locker.Request) context.Context {
			t.Error("Begin after stop")
			return ctx
		}}, 0)
		w := watch(t, l)
		mustAcquire(t, l, "name")
		if events := w.take(); len(events) != 1 || events[0].ctx.Value(byCaller{}) != true {
			t.Errorf("the events are %+v", events)
		}
	})
}
