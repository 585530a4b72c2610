package driver

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker"
)

// Events are noted under the engine's mutex, where the facts change, so they have the order of the
// facts. One goroutine delivers them without the mutex. It exists only while there is something to
// deliver. So nobody waits for an observer, an observer may call anything, and an idle Locker runs
// nothing.

// maxEvents is how many events may wait for their delivery. Renewals are the most frequent events
// and say the least: they may fill half of it.
const maxEvents = 8192

// keptEvents is how many events the storage has that is kept while nothing is delivered.
const keptEvents = 256

var _ locker.Observable = (*engine)(nil)

// observer is an Observer that is attached.
type observer struct {
	locker.Observer
	tracer  locker.Tracer // nil: it is none
	kinds   locker.EventKind
	stopped atomic.Bool
}

// pendingEvent is an event on its way to the observers that were attached when it happened.
type pendingEvent struct {
	ctx   context.Context //nolint:containedctx // an argument of Observe
	event locker.Event
	to    []*observer
}

// recorder has the events that are not delivered yet. The engine's mutex guards it.
type recorder struct {
	observers  []*observer      // replaced, and never changed
	wants      locker.EventKind // what one of them wants
	events     []pendingEvent
	spare      []pendingEvent // storage for the next events
	dropped    uint64
	delivering bool          // there is a goroutine that delivers
	delivered  chan struct{} // closed when it ends; nil: nobody waits for that
	left       atomic.Int64  // how many of the events that it has taken are not delivered yet
}

// Observe attaches o.
func (e *engine) Observe(o locker.Observer, kinds locker.EventKind) (stop func(), err error) {
	if kinds == 0 {
		kinds = ^kinds
	}
	added := &observer{Observer: o, kinds: kinds}
	added.tracer, _ = o.(locker.Tracer)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.setObservers(added)
	return func() {
		added.stopped.Store(true)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.setObservers(nil)
	}, nil
}

// setObservers replaces the list of observers: without those that have stopped, and with added.
func (e *engine) setObservers(added *observer) {
	r := &e.recorder
	var all, tracers []*observer
	wants := locker.EventKind(0)
	for _, o := range append(r.observers[:len(r.observers):len(r.observers)], added) {
		if o == nil || o.stopped.Load() {
			continue
		}
		all, wants = append(all, o), wants|o.kinds
		if o.tracer != nil {
			tracers = append(tracers, o)
		}
	}
	r.observers, r.wants = all, wants
	e.tracers.Store(nil)
	if len(tracers) > 0 {
		e.tracers.Store(&tracers)
	}
}

// tracedContext ends with a caller's context, and has the values that tracers added to it. So a
// tracer can't make a call deaf to its caller.
type tracedContext struct {
	context.Context
	values context.Context //nolint:containedctx // a context is what this is
}

func (c *tracedContext) Value(key any) any { return c.values.Value(key) }

// valuesOf returns a context that has the values of a call's context and never ends. A lease keeps it.
func valuesOf(ctx context.Context) context.Context {
	if traced, ok := ctx.(*tracedContext); ok {
		ctx = traced.values
	}
	return context.WithoutCancel(ctx)
}

// trace returns the context with which a call goes on.
func (e *engine) trace(ctx context.Context, req locker.Request) context.Context {
	if tracers := e.tracers.Load(); tracers != nil {
		return beginTrace(ctx, req, *tracers)
	}
	return ctx
}

//go:noinline
func beginTrace(ctx context.Context, req locker.Request, tracers []*observer) context.Context {
	values := ctx
	for _, o := range tracers {
		if o.stopped.Load() {
			continue
		}
		if added := o.tracer.Begin(values, req); added != nil {
			values = added
		}
	}
	return &tracedContext{ctx, values}
}

// record notes an event. values is the context for its observers; nil: it has none.
//
//nolint:contextcheck // the context is an argument of observers, and not one of this call
func (e *engine) record(values context.Context, event *locker.Event) {
	r, most := &e.recorder, maxEvents
	if event.Kind == locker.EventRenewed {
		most /= 2
	}
	if len(r.events)+int(r.left.Load()) >= most {
		r.dropped++
		return
	}
	if values == nil {
		values = context.Background()
	}
	event.Time, event.Backend = time.Now(), e.backend
	r.events = append(r.events, pendingEvent{values, *event, r.observers})
	if !r.delivering {
		r.delivering = true
		go e.deliver(new(delivery))
	}
}

// delivery is what is being delivered, and how far.
type delivery struct {
	batch []pendingEvent
	event int // of batch
	to    int // the next observer of that event
}

// deliver calls the observers until no event is left. When an observer ends the goroutine
// (runtime.Goexit, as a test's FailNow does), the delivery goes on in another one.
func (e *engine) deliver(d *delivery) {
	ended := false
	defer func() {
		if !ended {
			go e.deliver(d)
		}
	}()
	for {
		for ; d.event < len(d.batch); d.event, d.to = d.event+1, 0 {
			t := &d.batch[d.event]
			for d.to < len(t.to) {
				o := t.to[d.to]
				d.to++
				if o.kinds&t.event.Kind != 0 && !o.stopped.Load() {
					o.Observe(t.ctx, t.event)
				}
			}
			e.recorder.left.Add(-1)
		}
		d.event = 0
		if !e.takeEvents(&d.batch) {
			ended = true
			return
		}
	}
}

// takeEvents replaces a batch that was delivered by the next one. It returns false when there is
// none, and the delivery ends.
func (e *engine) takeEvents(batch *[]pendingEvent) bool {
	clear(*batch)
	e.mu.Lock()
	defer e.mu.Unlock()
	r := &e.recorder
	if cap(*batch) <= keptEvents {
		r.spare = (*batch)[:0]
	}
	if len(r.events) > 0 {
		*batch, r.events, r.spare = r.events, r.spare, nil
		r.left.Store(int64(len(*batch)))
		return true
	}
	if cap(r.events) > keptEvents {
		r.events = nil
	}
	r.delivering = false
	if r.delivered != nil {
		close(r.delivered)
		r.delivered = nil
	}
	return false
}

// waitDelivered waits until the observers have all events, for a limited time: one of them may
// hang, or be the caller.
func (e *engine) waitDelivered(limit time.Duration) {
	e.mu.Lock()
	if !e.recorder.delivering {
		e.mu.Unlock()
		return
	}
	delivered := make(chan struct{})
	e.recorder.delivered = delivered
	e.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-delivered:
	case <-timer.C:
	}
}
