package locker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fencedlock/locker/internal/callsite"
	"github.com/fencedlock/locker/internal/leasectx"
	"github.com/fencedlock/locker/internal/verdict"
)

// The parts that AcquireAll and AcquirePermit have in common: both ask for several locks at the
// same time, and hold leases while they wait for others.

// acquire calls l.Acquire. A faulty Locker may return neither a lease nor an error. The caller must
// not crash because of that: it may have leases to release.
func acquire(ctx context.Context, l Locker, name string, opts []Option) (Lease, error) {
	lease, err := l.Acquire(ctx, name, opts...)
	if lease == nil && err == nil {
		return nil, &Error{Op: "acquire", Backend: l.Guarantees().Backend, Name: name, Err: errNothing}
	}
	return lease, err
}

var errNothing = errors.New("the locker has returned neither a lease nor an error")

// answer is what a call on another goroutine has returned: of Acquire, or of Release, which returns no lease.
type answer struct {
	lease    Lease
	err      error
	returned bool // it has neither panicked nor ended its goroutine
	panicked any
}

func ask(call func() (Lease, error)) (a answer) {
	defer func() {
		if !a.returned {
			a.panicked = recover()
		}
	}()
	a.lease, a.err = call()
	a.returned = true
	return a
}

// askSideBySide makes n calls at the same time, with a context for them. If one of them panics, what
// the others got is released, and the panic is repeated.
func askSideBySide(ctx context.Context, n int, acquire func(ctx context.Context, i int) (Lease, error)) []answer {
	answers := make([]answer, n)
	if n == 1 {
		answers[0].lease, answers[0].err = acquire(ctx, 0)
		return answers
	}
	var all sync.WaitGroup
	asked := callsite.Note(ctx)
	for i := range n {
		all.Go(func() { answers[i] = ask(func() (Lease, error) { return acquire(asked, i) }) })
	}
	all.Wait()
	if slices.ContainsFunc(answers, func(a answer) bool { return !a.returned }) {
		leases := make([]Lease, n)
		for i, a := range answers {
			leases[i] = a.lease
		}
		releaseAll(ctx, leases)
		repeatPanics(answers)
	}
	return answers
}

var errPanicked = errors.New("a call of Acquire panicked") // no caller sees it

// repeatPanics repeats on the caller's goroutine a panic of another one.
func repeatPanics(answers []answer) {
	for _, a := range answers {
		switch {
		case a.returned:
		case a.panicked != nil:
			panic(a.panicked)
		default:
			panic("locker: a call of Acquire or Release has ended its goroutine")
		}
	}
}

// mayWait reports whether a call that asked without waiting, and failed, may go on by waiting: somebody else
// has the lock, or it was granted and lost at once.
func mayWait(err error) bool {
	_, died := verdict.Find[*verdict.Died](err)
	return died || errors.Is(err, ErrHeld)
}

// heldLasts is how long the answer that a lock is held is the service's last word, though a later
// request has none yet. It is the same as for a single lock.
const heldLasts = time.Second

// stillHeld returns err, the error of a request that was made at the time asked, after an answer
// that the lock is held. If the caller's time ran out before the service had to answer, the error
// matches ErrHeld: the caller has waited for a holder, and nothing says that the service fails.
func stillHeld(ctx context.Context, l Locker, name string, err error, asked time.Time) error {
	ranOut := errors.Is(ctx.Err(), context.DeadlineExceeded) && errors.Is(err, context.DeadlineExceeded)
	if !ranOut || OutcomeOf(err) != OutcomeError || time.Since(asked) > heldLasts {
		return err
	}
	why := &verdict.Outcome{Class: OutcomeTimeout, Err: fmt.Errorf("%w: %w", ErrHeld, contextError(ctx))}
	return &Error{Op: "acquire", Backend: l.Guarantees().Backend, Name: name, Err: why}
}

// contextError is the error of a context that is over, with its cause.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// lostOnTheWay says that a lease ended before the caller had all that it waits for. No caller sees
// it: if a Locker was closed, the next try says so.
type lostOnTheWay struct{ error }

func (e *lostOnTheWay) Unwrap() error { return e.error }

func isLostOnTheWay(err error) bool {
	_, lost := verdict.Find[*lostOnTheWay](err)
	return lost
}

// again calls try until it returns anything else than lostOnTheWay. The try that begins when ctx is
// over is the last one: its error has the cause of ctx. That cause may be the lostOnTheWay of
// another call, which acquires several locks and waits for this one.
func again[T any](ctx context.Context, try func() (T, error)) (T, error) {
	pause := 5 * time.Millisecond
	for {
		last := ctx.Err() != nil
		result, err := try()
		if last || !isLostOnTheWay(err) {
			return result, err
		}
		timer := time.NewTimer(pause) // a service that takes each lease at once must not make this loop spin
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(2*pause, 320*time.Millisecond)
	}
}

// waitContext returns a context that ends with ctx, and that can be ended before. If ctx never
// ends, it hides the leases that ctx comes from: an Acquire with such a context may outlive them,
// see [ErrHeldByCaller].
func waitContext(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	if ctx.Done() == nil {
		ctx = detached{ctx}
	}
	return context.WithCancelCause(ctx)
}

type detached struct{ context.Context }

func (c detached) Value(key any) any {
	switch key {
	case leaseKey{}, leasectx.Key{}:
		return nil
	}
	return c.Context.Value(key)
}

// watch calls ended with the error of each lease that ends before over is closed.
func watch(leases []Lease, over <-chan struct{}, ended func(error)) {
	for _, lease := range leases {
		go func() {
			select {
			case <-lease.Done():
				ended(lease.Err())
			case <-over:
			}
		}()
	}
}

// releaseAll releases the leases that are not nil at the same time, and waits for that until ctx
// ends. Then it goes on in the background.
func releaseAll(ctx context.Context, leases []Lease) {
	select {
	case <-startRelease(ctx, leases):
	case <-ctx.Done():
	}
}

// startRelease releases the leases that are not nil, and forgets them. The channel is closed when
// each Release has returned. What one of them hasn't confirmed by then, its Locker goes on to
// remove.
func startRelease(ctx context.Context, leases []Lease) (released <-chan struct{}) {
	done := make(chan struct{})
	var all sync.WaitGroup
	for i, lease := range leases {
		if lease != nil {
			leases[i] = nil
			all.Go(func() { _ = lease.Release(ctx) })
		}
	}
	go func() {
		defer close(done)
		all.Wait()
	}()
	return done
}
