package redisbackend_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/redisbackend"
)

// counting is a driver that counts the acquisitions which the engine keeps because their removal is
// not confirmed.
type counting struct {
	driver.Driver
	kept atomic.Int64
}

type counted struct {
	driver.Lock
	c    *counting
	once sync.Once
}

func (c *counting) Lock(req locker.Request, lost func(error)) (driver.Lock, error) {
	l, err := c.Driver.Lock(req, lost)
	return &counted{Lock: l, c: c}, err
}

func (c *counting) Renew(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	inner := make([]driver.Lock, len(locks))
	for i, l := range locks {
		inner[i] = l.(*counted).Lock
	}
	c.Driver.Renew(ctx, inner, report)
}

func (l *counted) Acquire(ctx context.Context) (driver.Grant, error) {
	l.once.Do(func() { l.c.kept.Add(1) })
	return l.Lock.Acquire(ctx)
}

func (l *counted) Release(ctx context.Context) error {
	err := l.Lock.Release(ctx)
	if err == nil {
		l.c.kept.Add(-1)
	}
	return err
}

// A server that accepts requests and never answers must not make a Locker keep forever what it has
// tried: time ends it.
func TestNothingIsKeptForever(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	d := &counting{Driver: f.driver(t, nil)}
	redisbackend.SetUnsentLimit(d.Driver, 10*time.Millisecond)
	const tries, ttl = 200, 20 * time.Millisecond
	l := driver.New(keepOpen{d}, driver.Config{TTL: ttl, Features: locker.FeatureTTL})
	f.answers(granted)
	lease, err := l.Acquire(t.Context(), "held", locker.WithTTL(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	f.answers(silence) // from here on, to the end of the test
	var all sync.WaitGroup
	for range 4 { // all of whose requests go out at once
		all.Go(func() {
			for range tries / 4 {
				if _, err := locker.TryAcquire(t.Context(), l, "name"); err == nil || errors.Is(err, locker.ErrHeld) {
					t.Errorf("TryAcquire = %v, and the server has not answered", err)
				}
			}
		})
	}
	all.Wait()
	if err := lease.Release(t.Context()); err == nil {
		t.Errorf("Release = nil, and the server has not answered")
	}
	for end := time.Now().Add(30 * time.Second); d.kept.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d acquisitions are kept after 30s, with a TTL of %v, want none", d.kept.Load(), tries+1, ttl)
		}
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close = %v, want nil: nothing can be left", err)
	}
}

// keepOpen is a driver that is closed by its test.
type keepOpen struct{ driver.Driver }

func (keepOpen) Close(context.Context) error { return nil }

// Before that time has passed, a removal that is not confirmed is one that may be needed.
func TestReleaseWaitsForTheTime(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	d := f.driver(t, nil)
	redisbackend.SetUnsentLimit(d, 0)
	f.answers(granted, "")
	const ttl = time.Second
	l := newLock(t, d, ttl)
	began := time.Now()
	if _, err := l.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	release := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), ttl/10)
		defer cancel()
		return l.Release(ctx)
	}
	for err := release(); err != nil; err = release() {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("Release = %v after %v, with a TTL of %v", err, time.Since(began), ttl)
		}
	}
	if after := time.Since(began); after < 2*ttl-ttl/10 {
		t.Errorf("Release = nil %v after the last request has begun, want two TTLs of %v: the lock may be held", after, ttl)
	}
	sent := len(f.called())
	if err := l.Release(t.Context()); err != nil || len(f.called()) != sent {
		t.Errorf("Release once more = %v after %d requests, want nil without any", err, len(f.called())-sent)
	}
}

// The first removal may come late, because many others had no answer before it. When nothing can be left
// it sends nothing.
func TestReleaseIsGivenUpBeforeItBegins(t *testing.T) {
	f := newFake(t)
	d := f.driver(t, nil)
	redisbackend.SetUnsentLimit(d, 0)
	f.answers(hangUp, silence)
	const ttl = 20 * time.Millisecond
	l := newLock(t, d, ttl)
	if _, err := l.Acquire(t.Context()); err == nil {
		t.Fatal("Acquire = nil, and the server has not answered")
	}
	time.Sleep(3 * ttl)
	sent := len(f.called())
	if err := l.Release(t.Context()); err != nil || len(f.called()) != sent {
		t.Errorf("Release after three TTLs = %v, and sent %d requests, want nil without any", err, len(f.called())-sent)
	}
}

// A message is repeated for some time after a caller has left it, and go-redis may write it later
// still. The tombstone must not end before that, however short the TTL is.
func TestTombstoneOutlastsTheLastCopy(t *testing.T) {
	f := newFake(t)
	for _, c := range []struct {
		what     string
		d        driver.Driver
		overruns time.Duration // for how long after its time the client may write a message
	}{
		{"its own client", f.ownDriver(t), 0},
		{"a client that minds contexts", f.driver(t, nil), 0},
		{"a client that doesn't", f.driver(t, func(o *redis.Options) { o.ContextTimeoutEnabled = false }), 3 * redisbackend.MessageTimeout},
		{"a Cluster", f.clusterDriver(t), 0},
	} {
		for _, ttl := range []time.Duration{time.Second, time.Hour} {
			f.answers(hangUp, granted)
			l := newLock(t, c.d, ttl)
			if _, err := l.Acquire(t.Context()); err != nil {
				t.Fatalf("%s: Acquire = %v, want nil", c.what, err)
			}
			f.answers(":0\r\n")
			if err := l.Release(t.Context()); err != nil {
				t.Errorf("%s: Release = %v, want nil", c.what, err)
			}
			lasts := ttlOf(t, f.calls[0])
			if lastCopy := redisbackend.MessageTimeout + c.overruns; lasts < lastCopy || lasts < ttl {
				t.Errorf("%s: the tombstone lasts %v, want %v for the last copy, and a TTL of %v", c.what, lasts, lastCopy, ttl)
			}
		}
	}
}

// ttlOf is the TTL in a call of a script.
func ttlOf(t *testing.T, call []string) time.Duration {
	t.Helper()
	keys, err := strconv.Atoi(call[2])
	if err != nil {
		t.Fatal(err)
	}
	millis, err := strconv.ParseInt(call[4+keys], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(millis) * time.Millisecond
}
