package redlockbackend_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker/driver"
)

// A waiter survives a service that fails for a moment, but not for long.
func TestWaiterAndFailingService(t *testing.T) {
	c := newCluster(t, 3, time.Second)
	l, err := c.Lock(request(400*time.Millisecond), func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	c.answer("acquire", heldByA, heldByA, heldByA)
	if _, err := l.Acquire(t.Context()); !errors.Is(err, driver.ErrQueued) {
		t.Fatalf("Acquire = %v, want ErrQueued", err)
	}
	c.answer("acquire", hangUp, hangUp, hangUp)
	if _, err := l.Acquire(t.Context()); err == nil || errors.Is(err, driver.ErrQueued) {
		t.Errorf("Acquire = %v, want an error that is not ErrHeld", err)
	}
	eventually(t, func() error { return l.Release(t.Context()) })
}

// Connections that end now and then, between one look and the next, are no service that fails all
// the time.
func TestWaiterWhoseConnectionsEnd(t *testing.T) {
	c := newCluster(t, 3, time.Second)
	l, err := c.Lock(request(4*time.Second), func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	c.answer("acquire", heldByA, heldByA, heldByA)
	if _, err := l.Acquire(t.Context()); !errors.Is(err, driver.ErrQueued) {
		t.Fatalf("Acquire = %v, want ErrQueued", err)
	}
	var mu sync.Mutex
	var ended time.Time
	endings := 0
	for _, s := range c.servers {
		s.does("acquire", func() string {
			mu.Lock()
			defer mu.Unlock()
			if time.Since(ended) > 700*time.Millisecond { // a look comes every second or so
				ended = time.Now()
				endings++
			}
			if time.Since(ended) < 50*time.Millisecond {
				return hangUp
			}
			return heldByA
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := l.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire = %v, want that it waits", err)
	}
	if endings < 3 {
		t.Errorf("connections have ended %d times only", endings)
	}
	eventually(t, func() error { return l.Release(t.Context()) })
}

// A service that fails for a moment, recovers, and fails for another moment, doesn't fail for all
// the time between. It has recovered when a majority answers, also if that takes no part yet.
func TestWaiterWhoseServiceFailsTwice(t *testing.T) {
	const ttl = time.Second
	c := newCluster(t, 3, time.Second)
	l, err := c.Lock(request(ttl), func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	c.answer("acquire", heldByA, heldByA, heldByA)
	if _, err := l.Acquire(t.Context()); !errors.Is(err, driver.ErrQueued) {
		t.Fatalf("Acquire = %v, want ErrQueued", err)
	}
	for _, s := range c.servers {
		var mu sync.Mutex
		var first time.Time
		failures := 0
		s.does("acquire", func() string {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case failures == 0:
				first = time.Now()
				failures++
				return hangUp
			case time.Since(first) < ttl*3/4: // longer than a waiter survives a service that fails
				return fmt.Sprintf("$%d\r\n%s\r\n", len("waits 60000"), "waits 60000")
			case failures == 1:
				failures++
				return hangUp
			}
			return raised
		})
	}
	if _, err := l.Acquire(t.Context()); err != nil {
		t.Errorf("Acquire = %v, want a grant", err)
	}
	eventually(t, func() error { return l.Release(t.Context()) })
}
