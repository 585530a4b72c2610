package otellocker

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencedlock/locker"
)

// maxLooks is how many locks are asked about at the same time. Further waiters get no link.
const maxLooks = 16

// links link waiters' spans to the spans of holders in other processes. Timers run its methods, each
// on a goroutine of its own, which ends with the answer of the service.
type links struct {
	l     locker.Locker // whose names events have
	after time.Duration // how long a waiter has waited; 0: there are no links

	mu      sync.Mutex
	stopped bool
	looks   map[subject][]trace.Span // the waiters for whom a look at this lock is under way
}

func newLinks(l locker.Locker, after time.Duration) *links {
	return &links{l: observed(l), after: after, looks: make(map[subject][]trace.Span)}
}

// observed is the locker in which locks have their whole names, as in events. Decorators of this module
// that hide what is below them have the method.
func observed(l locker.Locker) locker.Locker {
	for {
		x, ok := locker.AsLocker[interface{ Observed() locker.Locker }](l)
		if !ok {
			return l
		}
		l = x.Observed()
	}
}

// plan sets a timer for a look at the lock, when the waiter has waited for long enough. began is when
// the waiter called Acquire. The result is nil where there are no links.
func (k *links) plan(waiter trace.Span, lock subject, began time.Time) *time.Timer {
	if k.after == 0 {
		return nil
	}
	return time.AfterFunc(time.Until(began.Add(k.after)), func() { k.look(waiter, lock) })
}

// stop ends the looks that are planned.
func (k *links) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
}

// look asks the service who holds a lock, once for all waiters that want to know at the same time.
func (k *links) look(waiter trace.Span, lock subject) {
	if !waiter.IsRecording() || !k.begin(waiter, lock) {
		return
	}
	status, err := locker.Inspect(trace.ContextWithSpan(context.Background(), waiter), k.l, lock.name, locker.Look{Slot: lock.slot})
	holder := trace.SpanContext{}
	if err == nil && status.Holder != nil { // otherwise there is no link: nobody has the lock, or the service can't tell
		holder = remoteSpan(status.Holder.Trace)
	}
	for _, waiter := range k.end(lock) {
		if holder.IsValid() && holder.SpanID() != waiter.SpanContext().SpanID() { // it may have the lock by now
			waiter.AddLink(trace.Link{SpanContext: holder})
		}
	}
}

// begin returns true if this call has to ask.
func (k *links) begin(waiter trace.Span, lock subject) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	waiters, asked := k.looks[lock]
	if k.stopped || !asked && len(k.looks) >= maxLooks {
		return false
	}
	k.looks[lock] = append(waiters, waiter)
	return !asked
}

func (k *links) end(lock subject) []trace.Span {
	k.mu.Lock()
	defer k.mu.Unlock()
	waiters := k.looks[lock]
	delete(k.looks, lock)
	return waiters
}

// withTrace adds a span to what the acquisition says of itself on the service. A span that isn't
// sampled is seen by nobody, so it isn't added.
func withTrace(ctx context.Context, sc trace.SpanContext) context.Context {
	if !sc.IsValid() || !sc.IsSampled() {
		return ctx
	}
	return locker.ContextWithTrace(ctx, "00-"+sc.TraceID().String()+"-"+sc.SpanID().String()+"-01")
}

// remoteSpan is the span of a traceparent. It isn't valid if the text is none.
func remoteSpan(traceparent string) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
	return trace.SpanContextFromContext(ctx)
}
