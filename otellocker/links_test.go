package otellocker_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/middleware"
	"github.com/fencedlock/locker/otellocker"
)

// telling is a locker that tells the trace of each lock's holder.
type telling struct {
	locker.Locker
	takes time.Duration // to tell it

	mu    sync.Mutex
	trace string
	asked []string            // the names
	spans []trace.SpanContext // of those who asked
}

func (l *telling) Unwrap() locker.Locker { return l.Locker }

func (l *telling) Inspect(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
	time.Sleep(l.takes)
	l.mu.Lock()
	defer l.mu.Unlock()
	if look.Slot != 0 {
		name = fmt.Sprintf("%s, slot %d", name, look.Slot)
	}
	l.asked, l.spans = append(l.asked, name), append(l.spans, trace.SpanContextFromContext(ctx))
	return locker.Status{Name: name, Holder: &locker.Party{Trace: l.trace}}, nil
}

// questions are the names that were asked about.
func (l *telling) questions() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.asked)
}

func (l *telling) List(context.Context, string, int) iter.Seq2[locker.Status, error] { return nil }

// twoProcesses returns two lockers with one service. The second one can tell which span the first one
// has written last.
func twoProcesses(t *testing.T, p tracers) (holder locker.Locker, waiter *telling) {
	s := membackend.NewServer()
	holder = membackend.New(membackend.WithServer(s), membackend.WithDefaultTTL(ttl))
	waiter = &telling{Locker: membackend.New(membackend.WithServer(s), membackend.WithDefaultTTL(ttl))}
	t.Cleanup(func() {
		_ = holder.Close()
		_ = waiter.Close()
	})
	instrument(t, holder, otellocker.WithTracerProvider(p))
	_, err := locker.Observe(holder, beginner(func(ctx context.Context) {
		waiter.mu.Lock()
		defer waiter.mu.Unlock()
		waiter.trace = locker.TraceFrom(ctx)
	}), 0)
	if err != nil {
		t.Fatal(err)
	}
	return holder, waiter
}

func TestHolderLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTracers()
		holder, waiter := twoProcesses(t, p)
		l, err := middleware.Prefix(waiter, "p/")
		if err != nil {
			t.Fatal(err)
		}
		instrument(t, l, otellocker.WithTracerProvider(p), otellocker.WithHolderLinks(time.Second))
		held := acquire(t, holder, "p/name")
		first := p.ended("locker.acquire")[0].SpanContext()

		short, cancel := context.WithTimeout(t.Context(), time.Second-1)
		defer cancel()
		_, _ = l.Acquire(short, "name") // it doesn't wait for long enough
		granted := acquireLater(l, "name")
		time.Sleep(time.Second - 1)
		synctest.Wait()
		if asked := waiter.questions(); len(asked) > 0 {
			t.Errorf("asked too early: %v", asked)
		}
		time.Sleep(time.Minute)
		_ = held.Release(t.Context())
		<-granted

		if asked := waiter.questions(); len(asked) != 1 || asked[0] != "p/name" {
			t.Fatalf("asked about %v, want once about the whole name", asked)
		}
		spans := p.ended("locker.acquire")
		if len(spans) != 3 {
			t.Fatalf("%d spans, want 3", len(spans))
		}
		if links := spans[1].Links(); len(links) != 0 {
			t.Errorf("links of the waiter that gave up: %v", links)
		}
		links := spans[2].Links()
		if len(links) != 1 || links[0].SpanContext.TraceID() != first.TraceID() || links[0].SpanContext.SpanID() != first.SpanID() ||
			!links[0].SpanContext.IsRemote() || !links[0].SpanContext.IsSampled() {
			t.Errorf("the links are %v, want one to the holder's span", links)
		}
		if !waiter.spans[0].Equal(spans[2].SpanContext()) {
			t.Error("the question is not a child of the waiter's span")
		}
	})
}

// A caller that waits for a permit waits for the holders of slots. They are asked for by their slots.
func TestHolderLinksOfASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTracers()
		holder, l := twoProcesses(t, p)
		instrument(t, l, otellocker.WithTracerProvider(p), otellocker.WithHolderLinks(time.Second))
		onSlot := func(r *locker.Request) { r.Slot = 2 }
		held := acquire(t, holder, "name", onSlot)
		granted := acquireLater(l, "name", onSlot)
		time.Sleep(time.Minute)
		_ = held.Release(t.Context())
		_ = (<-granted).Release(t.Context())
		if asked := l.questions(); len(asked) != 1 || asked[0] != "name, slot 2" {
			t.Errorf("asked about %v, want once about slot 2", asked)
		}
		if links := p.ended("locker.acquire")[1].Links(); len(links) != 1 {
			t.Errorf("the links are %v, want one to the span of the slot's holder", links)
		}
	})
}

// Those who ask at the same time ask once. A holder that is known isn't asked for.
func TestHolderLinksTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTracers()
		holder, l := twoProcesses(t, p)
		l.takes = 10 * time.Millisecond
		stop := instrument(t, l, otellocker.WithTracerProvider(p), otellocker.WithHolderLinks(time.Second))
		held := acquire(t, holder, "name")
		granted := []chan locker.Lease{acquireLater(l, "name"), acquireLater(l, "name")}
		time.Sleep(time.Minute)
		_ = held.Release(t.Context())
		for _, g := range granted {
			_ = (<-g).Release(t.Context())
		}
		if asked := l.questions(); len(asked) != 1 {
			t.Errorf("asked %d times, want once", len(asked))
		}
		for _, s := range p.ended("locker.acquire")[1:] {
			if len(s.Links()) != 1 {
				t.Errorf("the links are %v, want one", s.Links())
			}
		}

		own := acquire(t, l, "name")
		g := acquireLater(l, "name")
		time.Sleep(time.Minute)
		_ = own.Release(t.Context())
		_ = (<-g).Release(t.Context())
		held = acquire(t, holder, "name")
		g = acquireLater(l, "name")
		stop()
		time.Sleep(time.Minute)
		_ = held.Release(t.Context())
		<-g
		if asked := l.questions(); len(asked) != 1 {
			t.Errorf("asked %d times: for a holder of the same Locker, or after stop", len(asked)-1)
		}
	})
}

// A service that can't tell, and a text that is no trace, make no link.
func TestHolderLinksOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTracers()
		s := membackend.NewServer()
		holder := membackend.New(membackend.WithServer(s))
		defer holder.Close()
		l := &telling{Locker: membackend.New(membackend.WithServer(s)), trace: "00-nonsense-01"}
		defer l.Close()
		instrument(t, l, otellocker.WithTracerProvider(p), otellocker.WithHolderLinks(time.Second))
		held := acquire(t, holder, "name")
		granted := acquireLater(l, "name")
		time.Sleep(2 * time.Second)
		_ = held.Release(t.Context())
		<-granted
		if asked, links := l.questions(), p.ended("locker.acquire")[0].Links(); len(asked) != 1 || len(links) != 0 {
			t.Errorf("asked %d times, links %v", len(asked), links)
		}
	})
}

// A span that isn't sampled is written nowhere.
func TestTraceOfAnUnsampledSpan(t *testing.T) {
	for _, sampler := range []sdktrace.Sampler{sdktrace.AlwaysSample(), sdktrace.NeverSample()} {
		l := membackend.New()
		defer l.Close()
		instrument(t, l, otellocker.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler))))
		var got string
		var span trace.SpanContext
		if _, err := locker.Observe(l, beginner(func(ctx context.Context) {
			got, span = locker.TraceFrom(ctx), trace.SpanContextFromContext(ctx)
		}), 0); err != nil {
			t.Fatal(err)
		}
		acquire(t, l, "name")
		want := ""
		if span.IsSampled() {
			want = "00-" + span.TraceID().String() + "-" + span.SpanID().String() + "-01"
		}
		if got != want {
			t.Errorf("the trace is %q, want %q", got, want)
		}
	}
}

// TestHolderLinksThroughTheService has the service keep the trace, and nothing else pass it on.
func TestHolderLinksThroughTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := membackend.NewServer(), newTracers()
		holder := membackend.New(membackend.WithServer(s), membackend.WithDefaultTTL(ttl))
		defer holder.Close()
		waiter := membackend.New(membackend.WithServer(s), membackend.WithDefaultTTL(ttl))
		defer waiter.Close()
		instrument(t, holder, otellocker.WithTracerProvider(p))
		instrument(t, waiter, otellocker.WithTracerProvider(p), otellocker.WithHolderLinks(time.Second))
		held := acquire(t, holder, "name")
		granted := acquireLater(waiter, "name")
		time.Sleep(2 * time.Second)
		_ = held.Release(t.Context())
		<-granted
		spans := p.ended("locker.acquire")
		links := spans[1].Links()
		if len(links) != 1 || links[0].SpanContext.SpanID() != spans[0].SpanContext().SpanID() ||
			links[0].SpanContext.TraceID() != spans[0].SpanContext().TraceID() {
			t.Errorf("the links are %v, want one to %v", links, spans[0].SpanContext())
		}
	})
}
