package redlockbackend_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/redlockbackend"
)

func TestReleases(t *testing.T) {
	released, refused := text("released"), text("refused OOM command not allowed")
	for _, c := range []struct {
		what    string
		answers []string
		want    string // nil, remains or error
	}{
		{"all", []string{released, released, released, released, released}, "nil"},
		{"two are away", []string{released, hangUp, released, silent, released}, "remains"},
		{"one has no room for a tombstone", []string{released, refused, released, released, released}, "remains"},
		{"three are away", []string{released, hangUp, hangUp, hangUp, released}, "error"},
	} {
		t.Run(c.what, func(t *testing.T) {
			cl := newCluster(t, 5, time.Second)
			cl.answer("acquire", raised, raised, raised, raised, raised)
			cl.answer("release", c.answers...)
			l := cl.lock(t, false)
			if _, err := l.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			redlockbackend.AwaitIdle(t.Context(), cl.Driver) // servers that aren't asked any more have nothing
			err := l.Release(t.Context())
			if c.want == "nil" {
				err = cl.released(t, l)
			}
			got := "error"
			switch {
			case err == nil:
				got = "nil"
			case errors.As(err, new(*driver.PartialReleaseError)):
				got = "remains"
			}
			if got != c.want {
				t.Fatalf("Release = %v, want %s", err, c.want)
			}
			for _, s := range cl.servers {
				s.answers("release", released)
			}
			eventually(t, func() error { return l.Release(t.Context()) })
			for i, n := range cl.called("release") {
				if c.answers[i] == released && n != 1 {
					t.Errorf("server %d has confirmed, and was asked %d times", i, n)
				}
			}
		})
	}
}

// A release has more time than an acquisition: its answer is worth something until the TTL is over.
func TestReleaseHasTheWholeTTL(t *testing.T) {
	t.Parallel()
	const ttl, takes = 4 * time.Second, 2200 * time.Millisecond
	c := newCluster(t, 3, time.Minute)
	c.answer("acquire", raised, raised, raised)
	for _, s := range c.servers {
		s.does("release", func() string {
			time.Sleep(takes)
			return text("released")
		})
	}
	l, err := c.Lock(request(ttl), func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.released(t, l); err != nil {
		t.Errorf("Release whose answers take %v of %v = %v, want nil", takes, ttl, err)
	}
}

// A server that nobody reaches has nothing of an attempt, so nothing is to be removed there.
func TestUnreachableServerHasNothing(t *testing.T) {
	c := newCluster(t, 3, time.Second)
	c.answer("acquire", raised, raised, "-NOPERM you may not\r\n")
	l := c.lock(t, false)
	if _, err := l.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return l.Release(t.Context()) })
	if got := c.called("release"); got[2] > 1 {
		t.Errorf("release was sent %v times", got)
	}
}

// A message goes on when a caller has left it, for as long as a server has to answer. The tombstone
// must not end before that, however short the TTL is.
func TestTombstoneOutlastsTheRequest(t *testing.T) {
	const serverTimeout = 10 * time.Second
	for _, ttl := range []time.Duration{5 * time.Second, 30 * time.Second} {
		c := newCluster(t, 3, serverTimeout)
		l, err := c.Lock(request(ttl), func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		var open []func()
		for _, s := range c.servers {
			open = append(open, s.gated(t, "acquire", hangUp))
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := waiting(ctx, l)
		for i := range c.servers {
			c.asked(t, i, "acquire", 1)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire = %v, want the context's end", err)
		}
		for _, answer := range open {
			answer()
		}
		eventually(t, func() error { return l.Release(t.Context()) })
		for i, s := range c.servers {
			calls := slices.DeleteFunc(s.list(), func(c call) bool { return c.script != "release" })
			if n := len(calls); n == 0 || calls[n-1].ttl < serverTimeout || calls[n-1].ttl < ttl {
				t.Errorf("server %d: the releases are %+v, want a tombstone for %v at least, and the TTL of %v", i, calls, serverTimeout, ttl)
			}
		}
	}
}

// Connections that are broken once cost nothing: the lock is free when the first call returns.
func TestReleaseIsRepeatedOnBrokenConnections(t *testing.T) {
	for _, c := range []struct {
		what    string
		answers []string
		calls   int
		free    bool
	}{
		{"broken once", []string{hangUp, text("released")}, 2, true},
		{"broken each time", []string{hangUp}, redlockbackend.MaxReleaseTries, false},
		{"silent", []string{silent}, 1, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			cl := newCluster(t, 3, time.Second)
			cl.answer("acquire", raised, raised, raised)
			for _, s := range cl.servers {
				s.answers("release", c.answers...)
			}
			l := cl.lock(t, false)
			if _, err := l.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			redlockbackend.AwaitIdle(t.Context(), cl.Driver)
			err := l.Release(t.Context())
			if free := err == nil || errors.As(err, new(*driver.PartialReleaseError)); free != c.free {
				t.Errorf("Release = %v, want that the lock is free: %v", err, c.free)
			}
			redlockbackend.AwaitIdle(t.Context(), cl.Driver)
			for i, n := range cl.called("release") {
				if n != c.calls {
					t.Errorf("release was sent %d times to server %d, want %d", n, i, c.calls)
				}
			}
			for _, s := range cl.servers {
				s.answers("release", text("released"))
			}
			eventually(t, func() error { return l.Release(t.Context()) })
		})
	}
}

// The next acquisition of the Locker doesn't overtake a release that is repeated: it would find the
// lease of its own Locker.
func TestAcquireFollowsRepeatedRelease(t *testing.T) {
	c := newCluster(t, 3, 10*time.Second)
	c.answer("acquire", raised, raised, raised)
	first := c.lock(t, false)
	if _, err := first.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	for _, s := range c.servers[:2] {
		s.answers("release", hangUp, text("released"))
	}
	var copies atomic.Int32
	answer := make(chan struct{})
	c.servers[2].does("release", func() string {
		if copies.Add(1) == 1 {
			return hangUp
		}
		<-answer
		return text("released")
	})
	if err := first.Release(t.Context()); !errors.As(err, new(*driver.PartialReleaseError)) {
		t.Errorf("Release = %v, want that the lock is free", err)
	}
	c.asked(t, 2, "release", 2)
	second := c.lock(t, false)
	if _, err := second.Acquire(t.Context()); err != nil {
		t.Errorf("Acquire = %v, want nil", err)
	}
	if n := c.servers[2].called("acquire"); n != 1 {
		t.Errorf("the server was asked for the lock %d times, want once: the release is still to be answered", n)
	}
	close(answer)
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	if n := c.servers[2].called("acquire"); n != 2 {
		t.Errorf("the server was asked for the lock %d times, want twice", n)
	}
	if err := c.released(t, second); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Errorf("Release once more = %v, want nil", err)
	}
}
