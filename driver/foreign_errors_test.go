package driver_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// The errors of a driver and the causes of a caller's context may have methods that call the
// Locker. So the engine calls none of these methods under its mutex.

// foreignError is such an error. Each of its methods looks at the Locker and at one of its leases.
type foreignError struct {
	matches []error // what it matches
	l       locker.Locker
	lease   locker.Lease
	looking atomic.Bool // so that a look, which may fail with this very error, doesn't look again
}

func (e *foreignError) look() {
	if !e.looking.CompareAndSwap(false, true) {
		return
	}
	defer e.looking.Store(false)
	e.l.Guarantees()
	_, _ = locker.StatsOf(e.l)
	_ = e.lease.Err()
	_ = e.lease.Release(context.Background())
}

func (e *foreignError) Error() string {
	e.look()
	return "foreign"
}

func (e *foreignError) Is(target error) bool {
	e.look()
	return slices.Contains(e.matches, target)
}

func (e *foreignError) As(any) bool {
	e.look()
	return false
}

func (e *foreignError) Unwrap() error {
	e.look()
	return nil
}

// foreign runs a test with a foreign error, which looks at the first lease of l. A deadlock of
// mutexes is no standstill for a bubble, so the time limit is one of real time.
func foreign(t *testing.T, f func() *fake, test func(t *testing.T, f *fake, l locker.Locker, e *foreignError)) {
	t.Helper()
	watchdog := time.AfterFunc(30*time.Second, func() { // a deadlocked Close would never return either
		panic("the engine is deadlocked: it called a foreign error's method under its mutex")
	})
	defer watchdog.Stop()
	bubble(t, func(t *testing.T) {
		f := f()
		l := open(t, f)
		e := &foreignError{l: l}
		acquire := f.acquire
		f.acquire = nil
		e.lease = mustAcquire(t, l, "of the error")
		f.acquire = acquire
		test(t, f, l, e)
	})
}

func healthy() *fake { return new(fake) }

// lossKinds are what a driver's error of a loss may match.
var lossKinds = [][]error{nil, {locker.ErrLost}, {locker.ErrMaxHold}}

func TestForeignErrorOfALoss(t *testing.T) {
	for _, kinds := range lossKinds {
		foreign(t, healthy, func(t *testing.T, f *fake, l locker.Locker, e *foreignError) {
			e.matches = kinds
			lease := mustAcquire(t, l, "name")
			f.lock(1).lost(e)
			matches(t, "Release", lease.Release(t.Context()), locker.ErrLost, e)
			matches(t, "Err", lease.Err(), locker.ErrLost, e)
			if got := locker.LossOf(lease.Err()); got != "revoked" {
				t.Errorf("LossOf = %q", got)
			}
		})
	}
}

func TestForeignErrorOfARenewal(t *testing.T) {
	for _, byHand := range []bool{false, true} {
		for _, kinds := range lossKinds {
			foreign(t, healthy, func(t *testing.T, f *fake, l locker.Locker, e *foreignError) {
				e.matches = kinds
				_ = e.lease.Release(t.Context()) // it isn't renewed
				var opts []locker.Option
				if byHand {
					opts = append(opts, locker.WithoutRenewal())
				}
				f.renew = func(context.Context, *fakeLock) (driver.Instant, error) { return 0, e }
				lease := mustAcquire(t, l, "name", opts...)
				if byHand {
					matches(t, "Renew", lease.Renew(callerContext(t)), e)
				}
				<-lease.Done()
				matches(t, "Err", lease.Err(), locker.ErrLost, e)
				_ = lease.Err().Error()
			})
		}
	}
}

// A foreign error as the cause of an acquisition's death: while it is queued, while its only request
// is under way, and just before the grant.
func TestForeignErrorOfAnAcquisition(t *testing.T) {
	for _, kinds := range lossKinds {
		foreign(t, healthy, func(t *testing.T, f *fake, l locker.Locker, e *foreignError) {
			e.matches = kinds
			queue := queues(nil)
			f.acquire = func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
				if l.n == 1 {
					return queue(ctx, l)
				}
				return grant(l), nil
			}
			p := start(t, l, "name")
			p.waits()
			f.lock(1).lost(e)
			p.granted()
		})
		foreign(t, healthy, func(t *testing.T, f *fake, l locker.Locker, e *foreignError) {
			e.matches = kinds
			f.acquire = func(ctx context.Context, _ *fakeLock) (driver.Grant, error) { return driver.Grant{}, hang(ctx) }
			p := start(t, l, "name", locker.NoWait())
			p.waits()
			f.lock(1).lost(e)
			err := p.failed()
			matchesNone(t, "Acquire", err, locker.ErrLost)
			if len(kinds) == 0 {
				matches(t, "Acquire", err, e)
			}
		})
		foreign(t, healthy, func(t *testing.T, f *fake, l locker.Locker, e *foreignError) {
			e.matches = kinds
			f.acquire = func(_ context.Context, l *fakeLock) (driver.Grant, error) {
				if l.n == 1 {
					l.lost(e)
				}
				return grant(l), nil
			}
			if lease := mustAcquire(t, l, "name"); lease.Token() != 3 {
				t.Errorf("Token = %v, want 3: the first acquisition was lost", lease.Token())
			}
		})
	}
}

func TestForeignErrorOfAnAnswer(t *testing.T) {
	for _, kinds := range [][]error{nil, {locker.ErrHeld}, {locker.ErrHeld, driver.ErrQueued}, {locker.ErrClosed}} {
		foreign(t, healthy, func(t *testing.T, f *fake, l locker.Locker, e *foreignError) {
			e.matches = kinds
			f.acquire = func(_ context.Context, l *fakeLock) (driver.Grant, error) {
				if l.count(&l.acquires) > 1 {
					return grant(l), nil
				}
				return driver.Grant{}, e
			}
			p := start(t, l, "name")
			if slices.Contains(kinds, locker.ErrHeld) {
				p.granted()
				return
			}
			matches(t, "Acquire", p.failed(), e)
		})
	}
}

func TestForeignErrorOfARelease(t *testing.T) {
	leaves := func() *fake { return &fake{leaves: true} }
	foreign(t, leaves, func(t *testing.T, f *fake, l locker.Locker, e *foreignError) {
		_ = e.lease.Release(t.Context()) // with success
		f.release = func(context.Context, *fakeLock) error { return e }
		lease := mustAcquire(t, l, "name")
		matches(t, "Release", lease.Release(t.Context()), e)
		matches(t, "Close", l.Close(), e)
	})
}
