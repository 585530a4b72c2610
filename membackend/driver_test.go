package membackend_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/membackend"
)

// These tests hold the driver against the obligations of package driver, without the engine. The network's delay
// separates the send time of a request from its arrival.

const ttl = 30 * time.Second

// site is one driver with its network.
type site struct {
	driver.Driver
	*membackend.Link
	t *testing.T
}

func newSite(t *testing.T, s *membackend.Server) site {
	link := membackend.NewLink()
	d := membackend.NewDriver(membackend.WithServer(s), membackend.WithLink(link))
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	return site{d, link, t}
}

// acquisition is a lock and what its lost callback was told.
type acquisition struct {
	driver.Lock
	lost chan error
}

func (s site) lock(req locker.Request) acquisition {
	s.t.Helper()
	if req.Name == "" {
		req.Name = "name"
	}
	if req.TTL == 0 {
		req.TTL = ttl
	}
	lost := make(chan error, 10)
	l, err := s.Lock(req, func(cause error) { lost <- cause })
	if err != nil {
		s.t.Fatalf("Lock = %v", err)
	}
	return acquisition{l, lost}
}

// held is a lock that was granted at once.
func (s site) held(req locker.Request) (acquisition, driver.Grant) {
	s.t.Helper()
	l := s.lock(req)
	g, err := l.Acquire(s.t.Context())
	if err != nil {
		s.t.Fatalf("Acquire = %v, want a grant", err)
	}
	return l, g
}

// queued is a lock that has its place in the queue.
func (s site) queued(req locker.Request) acquisition {
	s.t.Helper()
	l := s.lock(req)
	if _, err := l.Acquire(s.t.Context()); !errors.Is(err, driver.Held{}) {
		s.t.Fatalf("Acquire = %v, want %v", err, driver.Held{})
	}
	return l
}

func (s site) renew(locks ...driver.Lock) (bases []driver.Instant, errs []error) {
	s.t.Helper()
	bases, errs = make([]driver.Instant, len(locks)), make([]error, len(locks))
	reports := make([]int, len(locks))
	s.Renew(s.t.Context(), locks, func(i int, base driver.Instant, err error) {
		bases[i], errs[i] = base, err
		reports[i]++
	})
	for i, n := range reports {
		if n != 1 {
			s.t.Errorf("Renew reported lock %d %d times, want once", i, n)
		}
	}
	return bases, errs
}

func mustRelease(t *testing.T, locks ...acquisition) {
	t.Helper()
	for _, l := range locks {
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
	}
}

func wantResidue(t *testing.T, s *membackend.Server, want string) {
	t.Helper()
	if got := s.Residue(); got != want {
		t.Errorf("Residue = %q, want %q", got, want)
	}
}

func TestLockRefusesSillyTTLs(t *testing.T) {
	s := membackend.NewServer()
	site := newSite(t, s)
	for _, d := range []time.Duration{-time.Second, 0, 1, 5*time.Millisecond - 1} {
		_, err := site.Lock(locker.Request{Name: "name", TTL: d}, func(error) {})
		if !errors.Is(err, locker.ErrOption) {
			t.Errorf("Lock with TTL %v = %v, want %v", d, err, locker.ErrOption)
		}
	}
	for _, d := range []time.Duration{5 * time.Millisecond, math.MaxInt64} {
		if l, g := site.held(locker.Request{TTL: d}); g.TTL != d {
			t.Errorf("TTL in force = %v, want %v", g.TTL, d)
		} else {
			mustRelease(t, l)
		}
	}
	wantResidue(t, s, "")
}

func TestGrantBaseIsItsSendTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := newSite(t, membackend.NewServer())
		site.Delay(time.Second)
		sent := driver.Now()
		l, g := site.held(locker.Request{})
		if g.Base != sent || g.TTL != ttl || g.Token <= 0 {
			t.Errorf("Acquire = %+v, want base %d, TTL %v and a positive token", g, sent, ttl)
		}
		sent = driver.Now()
		if bases, errs := site.renew(l.Lock); errs[0] != nil || bases[0] != sent {
			t.Errorf("Renew = base %d, %v, want base %d", bases[0], errs[0], sent)
		}
		mustRelease(t, l)
	})
}

func TestHandedOverGrantHangsOnTheLastRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		one, two := newSite(t, s), newSite(t, s)
		first, g1 := one.held(locker.Request{})
		second := two.queued(locker.Request{})
		time.Sleep(ttl / 3)
		two.Delay(time.Second)
		sent := driver.Now()
		if bases, errs := two.renew(second.Lock); errs[0] != nil || bases[0] != sent {
			t.Errorf("Renew of a queued lock = base %d, %v, want base %d", bases[0], errs[0], sent)
		}
		time.Sleep(ttl / 4)
		mustRelease(t, first)
		g2, err := second.Acquire(t.Context())
		if err != nil || g2.Base != sent || g2.Token <= g1.Token {
			t.Errorf("Acquire = %+v, %v, want base %d and a token above %d", g2, err, sent, g1.Token)
		}
		mustRelease(t, second)

		first, _ = one.held(locker.Request{})
		second = two.queued(locker.Request{})
		mustRelease(t, first)
		time.Sleep(ttl / 4)
		sent = driver.Now() // of a refresh between the push and the call that collects it
		two.renew(second.Lock)
		if g, err := second.Acquire(t.Context()); err != nil || g.Base != sent {
			t.Errorf("Acquire = %+v, %v, want base %d", g, err, sent)
		}
		mustRelease(t, second)
	})
}

// TestLateRefreshCounts: a refresh that is carried out after its caller has given up restarts the TTL on the service,
// and the grant says that this is the one.
func TestLateRefreshCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		one, two := newSite(t, s), newSite(t, s)
		first, _ := one.held(locker.Request{})
		second := two.queued(locker.Request{})
		two.Delay(ttl / 3)
		sent := driver.Now()
		if _, errs := two.renew(second.Lock); errs[0] == nil || errors.Is(errs[0], locker.ErrLost) {
			t.Errorf("Renew without an answer = %v, want a failure that isn't final", errs[0])
		}
		time.Sleep(ttl / 3)
		mustRelease(t, first)
		if g, err := second.Acquire(t.Context()); err != nil || g.Base != sent {
			t.Errorf("Acquire = %+v, %v, want base %d", g, err, sent)
		}
		two.Delay(0)
		mustRelease(t, second)
	})
}

func TestLostGrantIsFoundByRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		one, two := newSite(t, s), newSite(t, s)
		first, _ := one.held(locker.Request{})
		second := two.queued(locker.Request{})
		two.Cut()
		mustRelease(t, first)
		two.Heal()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if g, err := second.Acquire(ctx); err == nil {
			t.Fatalf("Acquire = %+v, want no grant because its push was lost", g)
		}
		sent := driver.Now()
		if bases, errs := two.renew(second.Lock); errs[0] != nil || bases[0] != sent {
			t.Errorf("Renew = base %d, %v, want base %d", bases[0], errs[0], sent)
		}
		if g, err := second.Acquire(t.Context()); err != nil || g.Base != sent {
			t.Errorf("Acquire = %+v, %v, want base %d", g, err, sent)
		}
		mustRelease(t, second)
		wantResidue(t, s, "")
	})
}

func TestRenewTakesManyInOneRequest(t *testing.T) {
	s := membackend.NewServer()
	site := newSite(t, s)
	held, _ := site.held(locker.Request{Name: "held"})
	_, _ = site.held(locker.Request{Name: "queued"})
	queued := site.queued(locker.Request{Name: "queued"})
	taken, _ := site.held(locker.Request{Name: "taken"})
	s.Expire("taken")
	released, _ := site.held(locker.Request{Name: "released"})
	mustRelease(t, released)

	before := s.Requests()
	_, errs := site.renew(held.Lock, taken.Lock, queued.Lock, released.Lock)
	if n := s.Requests() - before; n != 1 {
		t.Errorf("Renew of 4 locks took %d requests, want 1", n)
	}
	for i, lost := range []bool{false, true, false, true} {
		if errors.Is(errs[i], locker.ErrLost) != lost || !lost && errs[i] != nil {
			t.Errorf("Renew of lock %d = %v, want lost: %v", i, errs[i], lost)
		}
	}
	wantResidue(t, s, `"held" is held, and 0 wait; "queued" is held, and 1 wait`)
}

func TestNoWaitLeavesNothing(t *testing.T) {
	s := membackend.NewServer()
	site := newSite(t, s)
	first, _ := site.held(locker.Request{})
	before := s.Requests()
	l := site.lock(locker.Request{NoWait: true})
	if _, err := l.Acquire(t.Context()); !errors.Is(err, locker.ErrHeld) {
		t.Errorf("Acquire with NoWait = %v, want %v", err, locker.ErrHeld)
	}
	mustRelease(t, l)
	if n := s.Requests() - before; n != 1 {
		t.Errorf("a refused NoWait took %d requests, want 1", n)
	}
	wantResidue(t, s, `"name" is held, and 0 wait`)
	mustRelease(t, first)
}

// TestReleaseSendsNothingWhenNothingStands: after a loss that the service has told, a refusal, or an earlier Release.
func TestReleaseSendsNothingWhenNothingStands(t *testing.T) {
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
		{"told by a renewal", func(t *testing.T, s *membackend.Server, site site) acquisition {
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

// TestLateAcquireMakesNoGhost: the acquire request is carried out after its clean-up was confirmed.
func TestLateAcquireMakesNoGhost(t *testing.T) {
	for _, noWait := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := membackend.NewServer()
			site := newSite(t, s)
			site.Delay(ttl / 2)
			l := site.lock(locker.Request{NoWait: noWait})
			if _, err := l.Acquire(t.Context()); err == nil || errors.Is(err, locker.ErrHeld) {
				t.Errorf("Acquire without an answer = %v, want a failure of the service", err)
			}
			site.Delay(0)
			mustRelease(t, l)
			before := s.Requests()
			time.Sleep(ttl / 2)
			synctest.Wait()
			if n := s.Requests() - before; n != 1 {
				t.Fatalf("%d requests were carried out late, want 1: the acquire", n)
			}
			wantResidue(t, s, "")
		})
	}
}

// TestCallsEndInTime: whatever hangs, a call returns well before a third of the TTL, and with its context.
func TestCallsEndInTime(t *testing.T) {
	faults := []struct {
		name  string
		cause func(*membackend.Server, site)
	}{
		{"paused", func(s *membackend.Server, _ site) { s.Pause() }},
		{"cut", func(_ *membackend.Server, l site) { l.Cut() }},
		{"delayed", func(_ *membackend.Server, l site) { l.Delay(time.Hour) }},
		{"reply dropped", func(_ *membackend.Server, l site) { l.DropReplies(1) }},
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

// TestBrokenConnectionLosesThePlace: and the waiter is told, by lost and by its Acquire, whether it was waiting already
// or not.
func TestBrokenConnectionLosesThePlace(t *testing.T) {
	faults := []struct {
		name  string
		cause func(*membackend.Server, site)
	}{
		{"sever", func(_ *membackend.Server, l site) { l.Sever() }},
		{"restart", func(s *membackend.Server, _ site) { s.Restart() }},
	}
	for _, fault := range faults {
		for _, waiting := range []bool{true, false} {
			t.Run(fault.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := membackend.NewServer()
					one, two := newSite(t, s), newSite(t, s)
					first, _ := one.held(locker.Request{})
					second := two.queued(locker.Request{})
					if !waiting {
						fault.cause(s, two)
					}
					result := make(chan error, 1)
					go func() {
						_, err := second.Acquire(t.Context())
						result <- err
					}()
					synctest.Wait()
					if waiting {
						fault.cause(s, two)
						synctest.Wait()
					}
					if err := <-result; err == nil || errors.Is(err, locker.ErrHeld) {
						t.Errorf("Acquire = %v, want a failure", err)
					}
					if len(second.lost) == 0 {
						t.Error("lost was not called")
					}
					wantResidue(t, s, `"name" is held, and 0 wait`)
					if _, errs := one.renew(first.Lock); errs[0] != nil {
						t.Errorf("Renew of the holder = %v", errs[0])
					}
					mustRelease(t, first, second)
					wantResidue(t, s, "")
				})
			})
		}
	}
}

// TestGrantBeatsTheEndOfTheWait: a grant that has come is returned, even if the wait ended for another reason
// meanwhile.
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

// TestCloseEndsTheConnection: calls under way return; the service learns it when it can, and finds the places dead when
// it can't.
func TestCloseEndsTheConnection(t *testing.T) {
	const gone, stays = `"name" is held, and 0 wait`, `"name" is held, and 1 wait`
	nothing := func(*membackend.Server, site) {}
	tests := []struct {
		name        string
		fault, mend func(*membackend.Server, site)
		closed      string // what is left after Close
		mended      string // and when the fault is mended
	}{
		{"no fault", nothing, nothing, gone, gone},
		{"paused",
			func(s *membackend.Server, _ site) { s.Pause() },
			func(s *membackend.Server, _ site) { s.Resume() }, stays, gone},
		{"cut",
			func(_ *membackend.Server, l site) { l.Cut() },
			func(_ *membackend.Server, l site) { l.Heal() }, stays, stays},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := membackend.NewServer()
				one, two := newSite(t, s), newSite(t, s)
				first, _ := one.held(locker.Request{})
				waiter := two.queued(locker.Request{})
				tt.fault(s, two)
				pending := make(chan error, 1)
				go func() {
					_, err := waiter.Acquire(t.Context())
					pending <- err
				}()
				synctest.Wait()
				if err := two.Close(t.Context()); err != nil {
					t.Errorf("Close = %v", err)
				}
				if err := <-pending; err == nil {
					t.Error("Acquire = nil after Close, want an error")
				}
				wantResidue(t, s, tt.closed)
				tt.mend(s, two)
				wantResidue(t, s, tt.mended)
				time.Sleep(ttl / 2)
				if _, errs := one.renew(first.Lock); errs[0] != nil {
					t.Fatalf("Renew = %v", errs[0])
				}
				time.Sleep(ttl / 2)
				synctest.Wait()
				wantResidue(t, s, gone)
				mustRelease(t, first)
			})
		})
	}
}
