package membackend_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/membackend"
)

// How calls of the driver end: with their context, with the connection, and without a lock that
// nobody knows of.

// TestReleaseSendsNothingWhenNothingExists: after a loss that the service has reported, a refusal,
// or an earlier Release.
func TestReleaseSendsNothingWhenNothingExists(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name    string
		prepare func(t *testing.T, s *membackend.Server, site site) acquisition
	}{
		{"not sent", func(t *testing.T, _ *membackend.Server, site site) acquisition {
			l := site.lock(locker.Request{})
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := l.Acquire(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Acquire = %v, want %v", err, context.Canceled)
			}
			return l
		}},
		{"released", func(t *testing.T, _ *membackend.Server, site site) acquisition {
			l, _ := site.held(locker.Request{})
			mustRelease(t, l)
			return l
		}},
		{"pushed", func(t *testing.T, s *membackend.Server, site site) acquisition {
			l, _ := site.held(locker.Request{})
			s.Expire("name")
			if len(l.lost) != 1 {
				t.Errorf("lost was called %d times, want once", len(l.lost))
			}
			return l
		}},
		{"notified by a renewal", func(t *testing.T, s *membackend.Server, site site) acquisition {
			l, _ := site.held(locker.Request{})
			s.Wipe()
			if _, errs := site.renew(l.Lock); !errors.Is(errs[0], locker.ErrLost) {
				t.Errorf("Renew = %v, want %v", errs[0], locker.ErrLost)
			}
			return l
		}},
		{"refused", func(t *testing.T, s *membackend.Server, site site) acquisition {
			l := site.lock(locker.Request{})
			s.Fail(broken)
			if _, err := l.Acquire(t.Context()); !errors.Is(err, broken) {
				t.Errorf("Acquire = %v, want %v", err, broken)
			}
			s.Fail(nil)
			return l
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := membackend.NewServer()
			l := tt.prepare(t, s, newSite(t, s))
			before := s.Requests()
			mustRelease(t, l)
			if n := s.Requests() - before; n != 0 {
				t.Errorf("Release took %d requests, want none", n)
			}
			wantResidue(t, s, "")
		})
	}
}

// TestLateAcquireCreatesNothing: the acquire request is executed after its clean-up was confirmed.
func TestLateAcquireCreatesNothing(t *testing.T) {
	for _, noWait := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := membackend.NewServer()
			site := newSite(t, s)
			site.Delay(ttl/2, 0)
			l := site.lock(locker.Request{NoWait: noWait})
			if _, err := l.Acquire(t.Context()); err == nil || errors.Is(err, locker.ErrHeld) {
				t.Errorf("Acquire without an answer = %v, want a failure of the service", err)
			}
			site.Delay(0, 0)
			mustRelease(t, l)
			before := s.Requests()
			time.Sleep(ttl / 2)
			synctest.Wait()
			if n := s.Requests() - before; n != 1 {
				t.Fatalf("%d requests were executed late, want 1: the acquire", n)
			}
			wantResidue(t, s, "")
		})
	}
}

// TestCallsEndInTime: whatever gives no answer, a call returns well before a third of the TTL, and
// with its context.
func TestCallsEndInTime(t *testing.T) {
	faults := []struct {
		name  string
		cause func(*membackend.Server, site)
	}{
		{"paused", func(s *membackend.Server, _ site) { s.Pause() }},
		{"cut", func(_ *membackend.Server, l site) { l.Cut() }},
		{"delayed", func(_ *membackend.Server, l site) { l.Delay(time.Hour, 0) }},
		{"reply dropped", func(_ *membackend.Server, l site) { l.Drop(1) }},
	}
	calls := []struct {
		name string
		do   func(context.Context, site, acquisition, time.Duration) error
	}{
		{"Acquire", func(ctx context.Context, l site, _ acquisition, ttl time.Duration) error {
			_, err := l.lock(locker.Request{Name: "other", TTL: ttl}).Acquire(ctx)
			return err
		}},
		{"Renew", func(ctx context.Context, l site, held acquisition, _ time.Duration) (err error) {
			l.Renew(ctx, []driver.Lock{held.Lock}, func(_ int, _ driver.Instant, e error) { err = e })
			return err
		}},
		{"Release", func(ctx context.Context, _ site, held acquisition, _ time.Duration) error {
			return held.Release(ctx)
		}},
	}
	bounds := []struct{ ttl, caller, want time.Duration }{
		{6 * time.Second, 0, time.Second},
		{6 * time.Second, time.Second / 2, time.Second / 2},
		{time.Hour, 0, 2 * time.Second},
		{time.Hour, time.Second, time.Second},
	}
	for _, fault := range faults {
		for _, call := range calls {
			for _, bound := range bounds {
				name := fmt.Sprintf("%s, %s, TTL %v, caller %v", call.name, fault.name, bound.ttl, bound.caller)
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := membackend.NewServer()
						site := newSite(t, s)
						held, _ := site.held(locker.Request{TTL: bound.ttl})
						ctx := t.Context()
						if bound.caller > 0 {
							var cancel context.CancelFunc
							ctx, cancel = context.WithTimeout(ctx, bound.caller)
							defer cancel()
						}
						fault.cause(s, site)
						start := time.Now()
						err := call.do(ctx, site, held, bound.ttl)
						if err == nil || errors.Is(err, locker.ErrHeld) || errors.Is(err, locker.ErrLost) {
							t.Errorf("%v, want a failure of the service", err)
						}
						if errors.Is(err, context.DeadlineExceeded) != (bound.caller > 0) {
							t.Errorf("%v, want the context's error only when that is over", err)
						}
						if took := time.Since(start); took != bound.want {
							t.Errorf("it took %v, want %v", took, bound.want)
						}
					})
				})
			}
		}
	}
}

// TestGrantBeatsTheEndOfTheWait: a grant that has come is returned, even if the wait ended for
// another reason at the same time.
func TestGrantBeatsTheEndOfTheWait(t *testing.T) {
	s := membackend.NewServer()
	one, two := newSite(t, s), newSite(t, s)
	for range 20 { // a select picks at random
		first, _ := one.held(locker.Request{})
		second := two.queued(locker.Request{})
		mustRelease(t, first)
		two.Sever()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := second.Acquire(ctx); err != nil {
			t.Fatalf("Acquire = %v, want the grant", err)
		}
		mustRelease(t, second)
	}
}
