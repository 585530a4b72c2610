package driver_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// fake is a driver whose answers a test writes. A nil function does what a healthy service does
// when nobody else is there. fake fails the test when the engine breaks the rules of which calls
// run at the same time, or leaves something behind.
type fake struct {
	acquire func(ctx context.Context, l *fakeLock) (driver.Grant, error)
	release func(ctx context.Context, l *fakeLock) error
	renew   func(ctx context.Context, l *fakeLock) (driver.Instant, error)
	shut    func(ctx context.Context) error
	refuse  error             // of Lock
	locking func(l *fakeLock) // called by Lock

	leaves bool // Close may fail, and something may not be removed

	t        testing.TB
	engine   locker.Locker
	mu       sync.Mutex
	locks    []*fakeLock
	renewals []renewal
	calls    int // under way
	closes   int
}

// renewal is one call of Renew.
type renewal struct {
	at    driver.Instant
	locks []*fakeLock
}

// fakeLock is one acquisition. f.mu guards what changes.
type fakeLock struct {
	f    *fake
	n    int // how many were prepared before it
	req  locker.Request
	lost func(error)

	acquires, releases, renews     int // calls so far, with those under way
	acquiring, releasing, renewing int // under way; renewing: in the background, without a report
	queued, granted, failed        bool
	removed                        bool
	answered                       driver.Instant // when Acquire returned last
	ended                          driver.Instant // the beginning of the first Release
}

// byCaller marks contexts of callers, to distinguish their renewals from those in the background.
type byCaller struct{}

func callerContext(t testing.TB) context.Context {
	return context.WithValue(t.Context(), byCaller{}, true)
}

func (f *fake) Guarantees() locker.Guarantees { return locker.Guarantees{Backend: "fake"} }

func (f *fake) Lock(req locker.Request, lost func(error)) (driver.Lock, error) {
	f.enter("Lock")
	defer f.leave()
	if f.refuse != nil {
		return nil, f.refuse
	}
	f.mu.Lock()
	l := &fakeLock{f: f, n: len(f.locks), req: req, lost: lost}
	f.locks = append(f.locks, l)
	f.mu.Unlock()
	if f.locking != nil {
		f.locking(l)
	}
	return l, nil
}

func (f *fake) enter(call string) {
	driver.TouchMutex(f.engine) // the engine must not call anything under its mutex
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closes > 0 {
		f.t.Errorf("%s was called after Close", call)
	}
	f.calls++
}

func (f *fake) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls--
}

// must reports a broken rule. f.mu is held.
func (f *fake) must(ok bool, rule string, l *fakeLock) {
	if !ok {
		f.t.Errorf("lock %d (%q): %s", l.n, l.req.Name, rule)
	}
}

func (l *fakeLock) Acquire(ctx context.Context) (driver.Grant, error) {
	f := l.f
	f.enter("Acquire")
	defer f.leave()
	f.mu.Lock()
	f.must(l.acquiring == 0, "two calls of Acquire overlap", l)
	f.must(l.releases == 0, "Acquire after Release", l)
	f.must(!l.granted && !l.failed, "Acquire after a grant or a failure", l)
	f.must(l.acquires == 0 || !l.req.NoWait, "a second Acquire with NoWait", l)
	l.acquires++
	l.acquiring++
	f.mu.Unlock()

	var answer driver.Grant
	err := errPanic
	defer func() {
		queued, held := errors.Is(err, driver.ErrQueued), errors.Is(err, locker.ErrHeld)
		f.mu.Lock()
		defer f.mu.Unlock()
		l.acquiring--
		l.answered = driver.Stamp()
		l.queued = queued
		l.granted = err == nil
		l.failed = err != nil && !held
	}()
	if f.acquire == nil {
		answer, err = grant(l), nil
	} else {
		answer, err = f.acquire(ctx, l)
	}
	return answer, err
}

// errPanic is what a driver panics with, on purpose.
var errPanic = errors.New("panic of a driver")

// grant is what a healthy service answers: stamped now, for the TTL that was asked for.
func grant(l *fakeLock) driver.Grant {
	return driver.Grant{Token: locker.Token(l.n + 1), Base: driver.Stamp(), TTL: l.req.TTL}
}

func (l *fakeLock) Release(ctx context.Context) error {
	f := l.f
	f.enter("Release")
	defer f.leave()
	f.mu.Lock()
	f.must(l.acquires > 0, "Release though Acquire was never called", l)
	f.must(l.acquiring == 0, "Release during Acquire", l)
	f.must(l.releasing == 0, "two calls of Release overlap", l)
	f.must(!l.removed, "Release after its removal was confirmed", l)
	_, bounded := ctx.Deadline()
	f.must(bounded, "Release without a deadline", l)
	f.must(ctx.Err() == nil, "Release with a context that is over", l)
	if l.releases == 0 {
		l.ended = driver.Stamp()
	}
	l.releases++
	l.releasing++
	f.mu.Unlock()

	err := errPanic
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		l.releasing--
		l.removed = err == nil
	}()
	if f.release == nil {
		err = nil
	} else {
		err = f.release(ctx, l)
	}
	return err
}

func (f *fake) Renew(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	f.enter("Renew")
	defer f.leave()
	background := ctx.Value(byCaller{}) == nil
	deadline, bounded := ctx.Deadline()
	call := renewal{at: driver.Stamp()}
	f.mu.Lock()
	if len(locks) == 0 {
		f.t.Error("Renew of no locks")
	}
	for _, lock := range locks {
		l := lock.(*fakeLock)
		call.locks = append(call.locks, l)
		f.must(ctx.Err() == nil, "Renew with a context that is over", l)
		f.must(l.queued || l.granted || l.answered >= call.at, "Renew of a lock that is neither queued nor held", l)
		f.must(!background || l.releases == 0 || l.ended >= call.at, "Renew after Release", l)
		f.must(!background || l.renewing == 0, "two renewals in the background overlap", l)
		f.must(l.req.TTL == call.locks[0].req.TTL, "renewed together with another TTL", l)
		limit := 5 * time.Second
		if l.req.TTL > 0 {
			limit = min(limit, l.req.TTL/4)
		}
		f.must(bounded && time.Until(deadline) <= limit, "Renew without time for another before the deadline", l)
		l.renews++
		if background {
			l.renewing++
		}
	}
	f.renewals = append(f.renewals, call)
	f.mu.Unlock()

	for i, l := range call.locks {
		base, err := driver.Stamp(), error(nil)
		if f.renew != nil {
			base, err = f.renew(ctx, l)
		}
		if background {
			f.mu.Lock()
			l.renewing--
			f.mu.Unlock()
		}
		if !errors.Is(err, errSilent) {
			report(i, base, err)
		}
	}
}

// errSilent lets Renew report nothing for a lock.
var errSilent = errors.New("no report")

func (f *fake) Close(ctx context.Context) error {
	f.mu.Lock()
	f.closes++
	if f.closes > 1 {
		f.t.Error("Close was called twice")
	}
	if f.calls > 0 && !f.leaves {
		f.t.Errorf("Close during %d other calls", f.calls)
	}
	f.mu.Unlock()
	if f.shut != nil {
		return f.shut(ctx)
	}
	return nil
}

// finish checks after Close that the engine has done everything that it had to.
func (f *fake) finish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closes != 1 {
		f.t.Errorf("the driver was closed %d times, want once", f.closes)
	}
	for _, l := range f.locks {
		f.must(l.acquires == 0 || l.removed || f.leaves, "it was not removed", l)
	}
	if residue := driver.Residue(f.engine); residue != "" {
		f.t.Errorf("the engine was left with %s", residue)
	}
}
