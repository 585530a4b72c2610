package driver_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// What most tests have in common: a TTL, what is left of it, and a locker whose Close must leave
// nothing.
const (
	ttl      = 10 * time.Second
	drift    = ttl/100 + 2*time.Millisecond
	validity = ttl - drift
)

var errService = errors.New("connection refused")

func open(t testing.TB, f *fake) locker.Locker {
	t.Helper()
	return openWith(t, f, driver.Config{TTL: ttl, Features: locker.FeatureTTL})
}

func openWith(t testing.TB, f *fake, cfg driver.Config) locker.Locker {
	t.Helper()
	cfg.ObeysContext = obeysContext
	l := driver.New(f, cfg)
	f.t, f.engine = t, l
	t.Cleanup(func() {
		if err := l.Close(); err != nil && !f.leaves {
			t.Errorf("Close = %v", err)
		}
		f.finish()
	})
	return l
}

// bubble runs a test in fake time, once for each way in which the engine calls a driver.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	ignoringBubble(t, test)
	t.Run("obeying", func(t *testing.T) {
		obeysContext = true
		defer func() { obeysContext = false }()
		synctest.Test(t, test)
	})
}

// ignoringBubble is a bubble for a test whose driver ignores contexts.
func ignoringBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// bubbleFor returns the bubble for one of several drivers.
func bubbleFor(ignoresContext bool) func(t *testing.T, test func(t *testing.T)) {
	if ignoresContext {
		return ignoringBubble
	}
	return bubble
}

// obeysContext is what the drivers of the test that runs declare.
var obeysContext bool

func mustAcquire(t testing.TB, l locker.Locker, name string, opts ...locker.Option) locker.Lease {
	t.Helper()
	lease, err := l.Acquire(callerContext(t), name, opts...)
	if err != nil {
		t.Fatalf("Acquire = %v", err)
	}
	if err := lease.Err(); err != nil {
		t.Fatalf("Err of a new lease = %v", err)
	}
	return lease
}

// pending is a call of Acquire in a goroutine of its own.
type pending struct {
	t      testing.TB
	done   chan struct{}
	lease  locker.Lease
	err    error
	took   time.Duration
	cancel context.CancelCauseFunc
}

// startWith calls Acquire with a context of the test's own making.
func startWith(t testing.TB, ctx context.Context, l locker.Locker, name string, opts ...locker.Option) *pending {
	p := &pending{t: t, done: make(chan struct{})}
	began := time.Now()
	go func() {
		defer close(p.done)
		p.lease, p.err = l.Acquire(ctx, name, opts...)
		p.took = time.Since(began)
	}()
	return p
}

// start calls Acquire with a context that the test can cancel.
func start(t testing.TB, l locker.Locker, name string, opts ...locker.Option) *pending {
	ctx, cancel := context.WithCancelCause(callerContext(t))
	t.Cleanup(func() { cancel(nil) })
	p := startWith(t, ctx, l, name, opts...)
	p.cancel = cancel
	return p
}

// startAll starts acquisitions that queue in the order of the slice they come back in.
func startAll(t testing.TB, l locker.Locker, name string, n int) []*pending {
	all := make([]*pending, n)
	for i := range all {
		all[i] = start(t, l, name)
		synctest.Wait()
	}
	return all
}

// waits fails the test when the call has returned.
func (p *pending) waits() {
	p.t.Helper()
	synctest.Wait()
	select {
	case <-p.done:
		p.t.Fatalf("Acquire returned %v, %v; it should still wait", p.lease, p.err)
	default:
	}
}

// granted waits for the call and its lease.
func (p *pending) granted() locker.Lease {
	p.t.Helper()
	<-p.done
	if p.err != nil {
		p.t.Fatalf("Acquire = %v", p.err)
	}
	return p.lease
}

// failed waits for the call and its error.
func (p *pending) failed() error {
	p.t.Helper()
	<-p.done
	if p.err == nil {
		p.t.Fatal("Acquire succeeded")
	}
	return p.err
}

// matches fails the test unless err matches all of want.
func matches(t testing.TB, what string, err error, want ...error) {
	t.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("%s = %v, want it to match %v", what, err, w)
		}
	}
}

// matchesNone fails the test when err matches one of unwanted.
func matchesNone(t testing.TB, what string, err error, unwanted ...error) {
	t.Helper()
	for _, u := range unwanted {
		if errors.Is(err, u) {
			t.Errorf("%s = %v, which must not match %v", what, err, u)
		}
	}
}

// endsAt waits for the end of a lease and fails the test unless it comes exactly at that time after
// began.
func endsAt(t testing.TB, lease locker.Lease, began time.Time, want time.Duration) error {
	t.Helper()
	<-lease.Done()
	if at := time.Since(began); at != want {
		t.Errorf("Done closed after %v, want %v", at, want)
	}
	err := lease.Err()
	if err == nil {
		t.Error("Err = nil though Done is closed")
	}
	return err
}

// inRhythm is true for the time between two renewals.
func inRhythm(d time.Duration) bool { return d <= ttl/3 && d >= ttl/3-ttl/10 }

// hang is a call without an answer, until its context is over.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// prepared returns all acquisitions so far.
func (f *fake) prepared() []*fakeLock {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.locks)
}

func (f *fake) lock(n int) *fakeLock {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n >= len(f.locks) {
		f.t.Fatalf("there are %d acquisitions, want at least %d", len(f.locks), n+1)
	}
	return f.locks[n]
}

// count reads a field of a lock.
func (l *fakeLock) count(field *int) int {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	return *field
}

func (l *fakeLock) isRemoved() bool {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	return l.removed
}

// renewed returns all calls of Renew so far.
func (f *fake) renewed() []renewal {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.renewals)
}

// journal notes when something happened.
type journal struct {
	mu sync.Mutex
	at []time.Time
}

// note adds this moment and returns how many there are.
func (j *journal) note() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.at = append(j.at, time.Now())
	return len(j.at)
}

func (j *journal) times() []time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.at)
}

func (l *fakeLock) isQueued() bool {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	return l.queued
}
