package redlockbackend_test

import (
	"context"
	"errors"
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
	const ttl, takes = 2 * time.Second, 1200 * time.Millisecond
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
	const serverTimeout = time.Second
	c := newCluster(t, 3, serverTimeout)
	for _, ttl := range []time.Duration{100 * time.Millisecond, 30 * time.Second} {
		c.answer("acquire", silent, silent, silent)
		l, err := c.Lock(request(ttl), func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := l.Acquire(ctx); err == nil {
			t.Fatal("Acquire = nil, and no server has answered")
		}
		cancel()
		eventually(t, func() error { return l.Release(t.Context()) })
		for i, s := range c.servers {
			calls := s.list()
			if last := calls[len(calls)-1]; last.script != "release" || last.ttl < serverTimeout || last.ttl < ttl {
				t.Errorf("server %d: %s sets a tombstone for %v, want %v at least, and the TTL of %v", i, last.script, last.ttl, serverTimeout, ttl)
			}
		}
	}
}
