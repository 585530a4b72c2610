package middleware

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/verdict"
)

// Reentrant returns a locker with which a task can acquire a lock that it has already. So
// goroutines that share a task don't exclude each other. [WithTask] makes a context of a task;
// with another context nothing changes.
//
// If the task has a lease on the name through this locker, Acquire returns a further handle on that
// lease, at once and without a request. If the task is acquiring the lock, Acquire waits for that (with
// [locker.NoWait] it returns [locker.ErrHeld]). If the last handle of the task is being released,
// Acquire waits until that Release has returned, also with NoWait, so that a task isn't kept out by
// its own lease. Otherwise it acquires the lock from l. A wait for the own task that runs out of time
// matches [locker.ErrHeld], too. This ErrHeld doesn't say that the service answers.
//
// A handle is a [locker.Lease]: its token, its deadline and its renewals are the lease's. It ends
// by its own Release, or with the lease. The lock is given back by the Release of the last handle.
// The Release of an earlier handle returns nil without a request, or the error of the loss. Each
// handle may be released twice.
//
// A further request must ask for nothing that the lease doesn't have. A TTL that is longer than the
// one of the task's first request, or any TTL if that asked for none, [locker.WithMaxHold],
// [locker.WithoutRenewal] and other options that would change the lease match [locker.ErrOption].
// The handle is on the lease as it is: also on one that isn't renewed, or ends after its longest
// hold, because the first request said so. The text of [locker.WithHolder] is the first request's.
// A function that must run once at a time, such as a candidate of package leader, must not share a
// task with another one.
//
// A task that has one of several locks may ask for all of them by [locker.AcquireAll], and gets a
// handle on the one that it has. But then it holds that lock while it waits for one whose name
// comes before, and two such tasks can wait for each other until their contexts end. So the first
// request of a task must be the one for all locks.
//
// Permits ([locker.AcquirePermit]) are not reentrant: a task that asks for two gets two.
//
// The handles exist in this process alone: the service knows one lease. Closing the result closes
// l.
func Reentrant(l locker.Locker) locker.Locker {
	return &reentrant{Locker: l, holdings: make(map[holdingKey]*holding), pruneAt: pruneFrom}
}

// WithTask returns a context of a new task for [Reentrant]. All contexts that come from it belong
// to the task, in whatever goroutine. Goroutines that must exclude each other need a context of
// WithTask each.
func WithTask(ctx context.Context) context.Context {
	return context.WithValue(ctx, taskKey{}, new(task))
}

type taskKey struct{}

// task is one by its address. It has a size, so that each has an address of its own.
type task struct{ _ byte }

type reentrant struct {
	locker.Locker
	mu       sync.Mutex
	holdings map[holdingKey]*holding // those that are being acquired, and those with a handle
	pruneAt  int                     // how many there are when prune looks at them
}

type holdingKey struct {
	task *task
	name string
}

// holding is a lease of one task.
type holding struct {
	request locker.Request // the first one
	ready   chan struct{}  // closed when the lease was acquired, or failed to be
	lease   locker.Lease   // nil: it failed to be acquired; set before ready is closed
	handles int            // guarded by the mutex of reentrant; 0: the last one is being released, or was
	over    chan struct{}  // closed when the task may acquire another lease
}

// Unwrap leads [locker.AsLocker] to the locker underneath: names and tokens are the same there.
func (r *reentrant) Unwrap() locker.Locker { return r.Locker }

func (r *reentrant) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	who, _ := ctx.Value(taskKey{}).(*task)
	req, err := locker.Resolve(name, opts...)
	if who == nil || err != nil || req.Slot != 0 {
		return r.Locker.Acquire(ctx, name, opts...)
	}
	r.prune()
	key := holdingKey{who, name}
	waited := false
	for ; ctx.Err() == nil; waited = true {
		h, first := r.join(key, req)
		if first {
			return r.acquireFirst(ctx, key, h, opts)
		}
		select {
		case <-h.ready:
		default:
			if req.NoWait {
				return nil, r.fail(name, locker.ErrHeld)
			}
			select {
			case <-h.ready:
			case <-ctx.Done():
				continue
			}
		}
		l, err := r.enter(key, h, req)
		if l != nil || err != nil {
			return l, err
		}
		select {
		case <-h.over:
		case <-ctx.Done():
		}
	}
	if waited && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, r.fail(name, ranOut(ctx))
	}
	return r.Locker.Acquire(ctx, name, opts...) // which returns the error of a context that is over
}

// ranOut is the error of a call that has waited for its own task until the deadline of ctx.
func ranOut(ctx context.Context) error {
	err := fmt.Errorf("%w: %w", locker.ErrHeld, ctx.Err())
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return &verdict.Outcome{Class: locker.OutcomeTimeout, Err: err} // whatever the cause matches
}

// join returns the holding of a task, and whether it is a new one that the caller must acquire.
func (r *reentrant) join(key holdingKey, req locker.Request) (h *holding, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h = r.holdings[key]; h != nil {
		return h, false
	}
	h = &holding{request: req, ready: make(chan struct{}), over: make(chan struct{})}
	r.holdings[key] = h
	return h, true
}

func (r *reentrant) acquireFirst(
	ctx context.Context, key holdingKey, h *holding, opts []locker.Option,
) (locker.Lease, error) {
	defer func() { // also after a panic
		r.mu.Lock()
		defer r.mu.Unlock()
		if h.lease == nil {
			r.forget(key, h)
		}
		close(h.ready)
	}()
	lease, err := r.Locker.Acquire(ctx, key.name, opts...)
	if err != nil || lease == nil {
		return nil, err
	}
	h.lease, h.handles = lease, 1
	return newHandle(r, key, h), nil
}

// enter returns a further handle. It returns nil if there is no lease any more: then another one
// has to be acquired when h.over is closed.
func (r *reentrant) enter(key holdingKey, h *holding, req locker.Request) (locker.Lease, error) {
	if h.lease == nil {
		return nil, nil //nolint:nilnil // the third outcome, of a function of this file
	}
	lost := h.lease.Err() != nil
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case h.handles == 0:
		return nil, nil //nolint:nilnil
	case lost: // its handles need not be released before the task gets another lease
		r.forget(key, h)
		return nil, nil //nolint:nilnil
	}
	if err := h.allows(req); err != nil {
		return nil, r.fail(key.name, err)
	}
	h.handles++
	return newHandle(r, key, h), nil
}

// allows refuses what the lease doesn't have. An option that this package doesn't know is refused
// as well.
func (h *holding) allows(req locker.Request) error {
	if req.TTL > h.request.TTL {
		has := "the TTL of the locker"
		if h.request.TTL > 0 {
			has = fmt.Sprintf("a TTL of %v", h.request.TTL)
		}
		return fmt.Errorf("%w: TTL %v: the lease of this task has %s; ask for the longest one first", locker.ErrOption, req.TTL, has)
	}
	known := locker.Request{Name: req.Name, TTL: req.TTL, NoWait: req.NoWait, Holder: req.Holder, Trace: req.Trace,
		Features: req.Features & locker.FeatureTTL}
	if req != known {
		return fmt.Errorf("%w: the task has the lock already, and only WithTTL, NoWait and WithHolder go with a further request: "+
			"other options would change a lease that is in use", locker.ErrOption)
	}
	return nil
}

// drop gives up a handle, and reports whether it was the last one, whose lease must be released.
func (r *reentrant) drop(h *holding) (last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.handles--
	return h.handles == 0
}

// release releases the lease of a holding without handles. Until that has returned, the task's
// other requests wait, because the lock may be held still.
func (r *reentrant) release(ctx context.Context, key holdingKey, h *holding) error {
	defer func() { // also after a panic
		r.mu.Lock()
		defer r.mu.Unlock()
		r.forget(key, h)
	}()
	return h.lease.Release(ctx)
}

// forget makes the next request acquire another lease. The mutex is held.
func (r *reentrant) forget(key holdingKey, h *holding) {
	if r.holdings[key] == h {
		delete(r.holdings, key)
		close(h.over)
	}
}

// pruneFrom is the least number of holdings that prune looks at.
const pruneFrom = 1000

// prune forgets the leases that have ended, and whose handles nobody has released. Most tasks don't ask
// again. It looks when there are twice as many holdings as after its last look.
func (r *reentrant) prune() {
	r.mu.Lock()
	if len(r.holdings) < r.pruneAt {
		r.mu.Unlock()
		return
	}
	all := maps.Clone(r.holdings)
	r.pruneAt = 2 * len(all)
	r.mu.Unlock()
	for key, h := range all {
		if h.isOver() {
			r.mu.Lock()
			if h.handles > 0 { // otherwise its release is under way
				r.forget(key, h)
			}
			r.mu.Unlock()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pruneAt = max(2*len(r.holdings), pruneFrom)
}

// isOver reports whether the lease was acquired, and has ended. Nothing of the Locker is called under the mutex
// of reentrant.
func (h *holding) isOver() bool {
	select {
	case <-h.ready:
		return h.lease != nil && h.lease.Err() != nil
	default:
		return false
	}
}

func (r *reentrant) fail(name string, err error) error {
	return &locker.Error{Op: "acquire", Backend: r.Guarantees().Backend, Name: name, Err: err}
}
