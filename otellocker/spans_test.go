package otellocker_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/otellocker"
)

// tracers is a tracer provider and the spans that have ended.
type tracers struct {
	*sdktrace.TracerProvider
	spans *tracetest.SpanRecorder
}

func newTracers() tracers {
	spans := tracetest.NewSpanRecorder()
	return tracers{sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithResource(resource.Empty())), spans}
}

// ended returns the spans of this name that have ended, in the order of their ends.
func (p tracers) ended(name string) []sdktrace.ReadOnlySpan {
	synctest.Wait()
	var list []sdktrace.ReadOnlySpan
	for _, s := range p.spans.Ended() {
		if s.Name() == name {
			list = append(list, s)
		}
	}
	return list
}

// attrs shows attributes as "key=value", sorted.
func attrs(list []attribute.KeyValue) string {
	var texts []string
	for _, a := range list {
		texts = append(texts, string(a.Key)+"="+a.Value.Emit())
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

func wantSpan(t *testing.T, s sdktrace.ReadOnlySpan, from, to time.Time, status codes.Code, attributes string) {
	t.Helper()
	if !s.StartTime().Equal(from) || !s.EndTime().Equal(to) {
		t.Errorf("%s lasts from %v to %v, want from %v to %v", s.Name(), s.StartTime(), s.EndTime(), from, to)
	}
	if s.Status().Code != status {
		t.Errorf("%s has the status %v, want %v", s.Name(), s.Status(), status)
	}
	if got := attrs(s.Attributes()); got != attributes {
		t.Errorf("%s has the attributes\n%s, want\n%s", s.Name(), got, attributes)
	}
}

func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, link, p := membackend.NewServer(), membackend.NewLink(), newTracers()
		link.Delay(there, back)
		l := membackend.New(membackend.WithServer(s), membackend.WithLink(link), membackend.WithDefaultTTL(ttl))
		defer l.Close()
		instrument(t, l, otellocker.WithTracerProvider(p), otellocker.WithHoldSpans(),
			otellocker.WithAttributes(attribute.String("locker.instance", "test")))
		var inside trace.SpanContext
		if _, err := locker.Observe(l, beginner(func(ctx context.Context) { inside = trace.SpanContextFromContext(ctx) }), 0); err != nil {
			t.Fatal(err)
		}

		ctx, caller := p.Tracer("test").Start(t.Context(), "caller")
		began := time.Now()
		lease, err := l.Acquire(ctx, "invoices/1")
		if err != nil {
			t.Fatal(err)
		}
		granted := time.Now()
		spans := p.ended("locker.acquire")
		if len(spans) != 1 {
			t.Fatalf("%d spans, want 1", len(spans))
		}
		first := spans[0]
		wantSpan(t, first, began, granted, codes.Unset, "locker.backend=mem locker.contended=false locker.instance=test "+
			"locker.name=invoices/1 locker.outcome=granted locker.token="+lease.Token().String()+" locker.ttl=3600")
		if first.Parent().SpanID() != caller.SpanContext().SpanID() || first.SpanKind() != trace.SpanKindInternal {
			t.Errorf("the parent is %v and the kind %v", first.Parent(), first.SpanKind())
		}
		if inside.SpanID() != first.SpanContext().SpanID() {
			t.Error("what Acquire does has not the context of the span")
		}

		// A waiter's span has a link to the one of the lease. Its own lease is lost.
		began = time.Now()
		later := acquireLater(l, "invoices/1")
		waits := began.Add(there + back)
		time.Sleep(time.Second)
		s.RefuseRenewals(errService)
		_ = lease.Renew(t.Context())
		ended := time.Now()
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := <-later
		granted2 := ended.Add(there)
		second := p.ended("locker.acquire")[1]
		wantSpan(t, second, began, granted2, codes.Unset, "locker.backend=mem locker.contended=true locker.instance=test "+
			"locker.name=invoices/1 locker.outcome=granted locker.token="+next.Token().String()+" locker.ttl=3600")
		if links := second.Links(); len(links) != 1 || !links[0].SpanContext.Equal(first.SpanContext()) {
			t.Errorf("the waiter's links are %v, want one to the holder's span", links)
		}
		if events := second.Events(); len(events) != 1 || events[0].Name != "waiting" || !events[0].Time.Equal(waits) ||
			attrs(events[0].Attributes) != "locker.ahead=0" {
			t.Errorf("the waiter's events are %v", events)
		}
		time.Sleep(time.Second)
		s.Expire("invoices/1")
		lost := time.Now()
		<-next.Done()

		hold := p.ended("locker.hold")
		if len(hold) != 2 {
			t.Fatalf("%d spans of leases, want 2", len(hold))
		}
		wantSpan(t, hold[0], granted, ended, codes.Unset, "locker.backend=mem locker.instance=test locker.name=invoices/1 locker.token="+
			lease.Token().String()+" locker.ttl=3600")
		if hold[0].Parent().SpanID() != caller.SpanContext().SpanID() {
			t.Errorf("the parent of the lease's span is %v, want the caller's", hold[0].Parent())
		}
		if links := hold[0].Links(); len(links) != 1 || !links[0].SpanContext.Equal(first.SpanContext()) {
			t.Errorf("the lease's links are %v, want one to the span of its acquisition", links)
		}
		if events := hold[0].Events(); len(events) != 1 || events[0].Name != "renewal failed" ||
			!strings.HasSuffix(attrs(events[0].Attributes), "service failed locker.tries=1") {
			t.Errorf("the lease's events are %v", events)
		}
		if !hold[1].StartTime().Equal(granted2) || !hold[1].EndTime().Equal(lost) || hold[1].Status().Code != codes.Error {
			t.Errorf("the span of the lost lease lasts from %v to %v, %v", hold[1].StartTime(), hold[1].EndTime(), hold[1].Status())
		}
		if events := hold[1].Events(); len(events) != 1 || events[0].Name != "lost" || attrs(events[0].Attributes) != "locker.cause=revoked" {
			t.Errorf("the events of the lost lease are %v", events)
		}
	})
}

// beginner is a tracer of one function.
type beginner func(context.Context)

func (b beginner) Observe(context.Context, locker.Event) {}

func (b beginner) Begin(ctx context.Context, _ locker.Request) context.Context {
	b(ctx)
	return ctx
}

// Only a failure of the service is an error.
func TestSpansOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := membackend.NewServer(), newTracers()
		rival := membackend.New(membackend.WithServer(s), membackend.WithDefaultTTL(ttl))
		defer rival.Close()
		l := membackend.New(membackend.WithServer(s), membackend.WithDefaultTTL(ttl))
		defer l.Close()
		instrument(t, l, otellocker.WithTracerProvider(p))
		acquire(t, rival, "held")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = l.Acquire(t.Context(), "held", locker.NoWait())
		_, _ = l.Acquire(ctx, "held", locker.WithTTL(time.Minute))
		s.Fail(errService)
		_, _ = l.Acquire(t.Context(), "free")
		s.Fail(nil)

		spans := p.ended("locker.acquire")
		if len(spans) != 3 {
			t.Fatalf("%d spans, want 3", len(spans))
		}
		now := time.Now()
		began := now.Add(-time.Second)
		wantSpan(t, spans[0], began, began, codes.Unset, "locker.backend=mem locker.name=held locker.outcome=held locker.ttl=3600")
		wantSpan(t, spans[1], began, now, codes.Unset, "locker.backend=mem locker.name=held locker.outcome=timeout locker.ttl=60")
		wantSpan(t, spans[2], now, now, codes.Error, "error.type=*errors.errorString locker.backend=mem locker.name=free locker.outcome=error locker.ttl=3600")
		if links := spans[1].Links(); len(links) != 0 {
			t.Errorf("links to a holder of another process: %v", links)
		}
	})
}

// A place that is lost is noted, and the wait goes on in the same span.
func TestSpanOfARequeuedAcquisition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, link, p := membackend.NewServer(), membackend.NewLink(), newTracers()
		rival := membackend.New(membackend.WithServer(s))
		defer rival.Close()
		l := membackend.New(membackend.WithServer(s), membackend.WithLink(link))
		defer l.Close()
		instrument(t, l, otellocker.WithTracerProvider(p))
		held := acquire(t, rival, "name")
		granted := acquireLater(l, "name")
		link.Sever()
		synctest.Wait()
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-granted
		spans := p.ended("locker.acquire")
		if len(spans) != 1 {
			t.Fatalf("%d spans, want 1", len(spans))
		}
		var names []string
		for _, e := range spans[0].Events() {
			names = append(names, e.Name)
		}
		if !slices.Equal(names, []string{"waiting", "requeued"}) {
			t.Errorf("the events are %v", names)
		}
	})
}

// The link of a waiter is to the lease that is held now, and not to an earlier one.
func TestLinkToTheNextHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := membackend.NewServer(), newTracers()
		l := membackend.New(membackend.WithServer(s), membackend.WithDefaultTTL(ttl))
		defer l.Close()
		instrument(t, l, otellocker.WithTracerProvider(p))
		first := acquire(t, l, "name")
		second := acquireLater(l, "name")
		_ = first.Release(t.Context())
		next := <-second
		third := acquireLater(l, "name")
		_ = next.Release(t.Context())
		last := <-third
		_ = last.Release(t.Context())
		synctest.Wait()
		_ = acquire(t, l, "name").Release(t.Context())
		spans := p.ended("locker.acquire")
		if len(spans) != 4 {
			t.Fatalf("%d spans, want 4", len(spans))
		}
		for i, want := range []int{0, 1, 1, 0} {
			links := spans[i].Links()
			if len(links) != want {
				t.Fatalf("span %d has %d links, want %d", i, len(links), want)
			}
			if want == 1 && !links[0].SpanContext.Equal(spans[i-1].SpanContext()) {
				t.Errorf("span %d links to %v, want the span before", i, links[0].SpanContext)
			}
		}
	})
}
