package driver_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/verdict"
)

var errRevoked = errors.New("revoked by an operator")

// tell reports the loss of an acquisition as drivers do: while it holds a mutex that each of its
// calls takes.
func (f *fake) tell(n int, cause error) {
	l := f.lock(n)
	f.mu.Lock()
	defer f.mu.Unlock()
	l.lost(cause)
}

func TestALossThatIsPushedEndsTheLeaseAtOnce(t *testing.T) {
	for _, cause := range []error{errRevoked, errors.Join(locker.ErrLost, errRevoked), nil} {
		bubble(t, func(t *testing.T) {
			f := &fake{}
			lease := mustAcquire(t, open(t, f), "name")
			time.Sleep(time.Second)
			for _, c := range []error{cause, errService, nil} { // what comes later changes nothing
				f.tell(0, c)
			}
			select {
			case <-lease.Done():
			default:
				t.Fatal("Done is open")
			}
			err := lease.Err()
			matches(t, "Err", err, locker.ErrLost)
			if cause != nil {
				matches(t, "Err", err, cause)
			} else if want := "the driver named no cause"; !strings.Contains(err.Error(), want) {
				t.Errorf("Err = %q, want in it %q", err, want)
			}
			if n := strings.Count(err.Error(), locker.ErrLost.Error()); n != 1 {
				t.Errorf("Err = %q, want it to say once that the lock is lost", err)
			}
			matchesNone(t, "Err", err, errService)
			synctest.Wait()
			if !f.lock(0).isRemoved() {
				t.Error("it was not removed")
			}
			f.tell(0, errService)
			if again := lease.Err(); again.Error() != err.Error() {
				t.Errorf("Err = %v, want it unchanged", again)
			}
		})
	}
}

// Before the grant, a loss cancels Acquire with its cause, and the wait goes on with a new
// acquisition.
func TestALossBeforeTheGrant(t *testing.T) {
	// until is over when the loss was reported, or an hour later.
	until := func(ctx context.Context, t *testing.T) error {
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, errRevoked) {
				t.Errorf("Cause = %v, want that of the loss", cause)
			}
			return ctx.Err()
		case <-time.After(time.Hour):
			return nil
		}
	}
	stale := func(_ context.Context, _ *testing.T, l *fakeLock) (driver.Grant, error) {
		return stamped(time.Hour)(l), nil
	}
	for _, tc := range []struct {
		name    string
		acquire func(ctx context.Context, t *testing.T, l *fakeLock) (driver.Grant, error)
		renew   func(ctx context.Context) (driver.Instant, error) // of the first
	}{
		{"during the first request", func(ctx context.Context, t *testing.T, _ *fakeLock) (driver.Grant, error) {
			return driver.Grant{}, until(ctx, t)
		}, nil},
		{"queued", func(ctx context.Context, t *testing.T, l *fakeLock) (driver.Grant, error) {
			if l.count(&l.acquires) == 1 {
				return driver.Grant{}, driver.ErrQueued
			}
			return driver.Grant{}, until(ctx, t)
		}, nil},
		{"between two polls", func(context.Context, *testing.T, *fakeLock) (driver.Grant, error) {
			return driver.Grant{}, &driver.HeldError{AskWithin: time.Minute}
		}, nil},
		{"granted all the same", func(ctx context.Context, t *testing.T, l *fakeLock) (driver.Grant, error) {
			_ = until(ctx, t)
			return grant(l), nil
		}, nil},
		{"while the grant is proved", stale, func(ctx context.Context) (driver.Instant, error) { return 0, hang(ctx) }},
		{"while the grant is proved, and proved all the same", stale, func(ctx context.Context) (driver.Instant, error) {
			_ = hang(ctx)
			return driver.Stamp(), nil
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := &fake{}
				f.acquire = func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
					if l.n > 0 {
						return grant(l), nil
					}
					return tc.acquire(ctx, t, l)
				}
				f.renew = func(ctx context.Context, _ *fakeLock) (driver.Instant, error) { return tc.renew(ctx) }
				l := open(t, f)
				p := start(t, l, "name")
				time.Sleep(time.Second)
				p.waits()
				f.tell(0, errRevoked)
				f.tell(0, errService)
				lease := p.granted()
				if lease.Token() != 2 {
					t.Errorf("Token = %v, want that of the second acquisition", lease.Token())
				}
				want := time.Second
				if tc.renew != nil {
					want = ttl / 4 // a renewal under way is not cut short
				}
				if p.took > want+10*time.Millisecond {
					t.Errorf("it took %v, want little more than %v", p.took, want)
				}
				synctest.Wait()
				if !f.lock(0).isRemoved() {
					t.Error("the first acquisition was not removed")
				}
			})
		})
	}
}

// A lost acquisition is not renewed, even if its Acquire is late to notice the loss.
func TestALostPlaceInTheQueueIsNotRenewed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			switch {
			case l.n > 0:
				return grant(l), nil
			case l.count(&l.acquires) == 1:
				return driver.Grant{}, driver.ErrQueued
			}
			time.Sleep(3 * ttl) // ignores its context
			return grant(l), nil
		}}
		l := open(t, f)
		p := start(t, l, "name")
		time.Sleep(ttl / 2)
		p.waits()
		f.tell(0, errRevoked)
		p.granted()
		if n := f.lock(0).count(&f.lock(0).renews); n != 1 {
			t.Errorf("%d renewals, want none after the loss", n-1)
		}
	})
}

// A driver may call lost before Lock has returned. Nothing was begun then, so the wait goes on.
func TestALossBeforeTheFirstRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		f.locking = func(l *fakeLock) {
			if l.n == 0 {
				l.lost(errRevoked)
			}
		}
		l := open(t, f)
		if lease := mustAcquire(t, l, "name"); lease.Token() != 2 {
			t.Errorf("Token = %v, want the token of a second acquisition", lease.Token())
		}
	})
}

func TestALossInTheLocalQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		grants := make(chan func(*fakeLock) driver.Grant)
		f := &fake{acquire: queues(grants)}
		l := open(t, f)
		all := startAll(t, l, "name", 3)
		f.tell(1, errRevoked)
		f.tell(2, errRevoked)
		for _, p := range all {
			grants <- grant
			p.granted().Release(t.Context())
		}
	})
}

func TestNoWaitIsNotTriedAgainAfterALoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
			l.lost(errRevoked)
			l.lost(errService) // the first loss counts
			return driver.Grant{}, hang(ctx)
		}}
		_, err := open(t, f).Acquire(t.Context(), "name", locker.NoWait())
		matches(t, "Acquire", err, errRevoked)
		matchesNone(t, "Acquire", err, locker.ErrHeld, errService)
		if _, died := verdict.Find[*verdict.Died](err); !died {
			t.Errorf("Acquire = %v, want an error that says that another try may succeed", err)
		}
	})
}

// A session that ends with each acquisition must not make a waiter spin.
func TestQueueingAgainBacksOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			l.lost(errRevoked)
			return driver.Grant{}, driver.ErrQueued
		}}
		p := start(t, open(t, f), "name")
		time.Sleep(time.Minute)
		p.waits()
		if n := len(f.prepared()); n < 60 || n > 600 {
			t.Errorf("%d acquisitions in a minute, want some hundred", n)
		}
		p.cancel(nil)
		matches(t, "Acquire", p.failed(), context.Canceled)
	})
}

// A driver may call lost from several goroutines at once, and at the same time as report.
func TestLossesFromSeveralGoroutines(t *testing.T) {
	f := &fake{}
	l := open(t, f)
	for n := range 200 {
		lease := mustAcquire(t, l, "name")
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { f.tell(n, errRevoked) })
		}
		wg.Go(func() { _ = lease.Renew(callerContext(t)) })
		wg.Wait()
		matches(t, "Err", lease.Err(), locker.ErrLost, errRevoked)
		matches(t, "Release", lease.Release(t.Context()), locker.ErrLost)
	}
}

// nosy is a context that does something when it is asked.
type nosy struct {
	context.Context
	look func()
}

func (n nosy) Done() <-chan struct{} {
	n.look()
	return n.Context.Done()
}

// The context of an acquisition that dies is ended while no mutex is held: its methods are the
// caller's, and may look at a lease.
func TestALossAndANosyContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
			if l.n == 0 {
				return grant(l), nil
			}
			return queues(nil)(ctx, l)
		}}
		l := open(t, f)
		lease := mustAcquire(t, l, "held", locker.WithoutRenewal())
		ctx, cancel := context.WithCancel(callerContext(t))
		defer cancel()
		p := startWith(t, nosy{ctx, func() { _ = lease.Err() }}, l, "name")
		p.waits()
		driver.Suspend(time.Hour) // the deadline is over, and nobody has noticed
		f.tell(1, errRevoked)
		matches(t, "Err", lease.Err(), locker.ErrLost)
		cancel()
		_ = p.failed()
	})
}
