package redlockbackend_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// A waiter survives a service that fails for a moment, but not for long.
func TestWaiterAndFailingService(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, time.Second)
	l, err := c.Lock(request(2*time.Second), func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	c.answer("acquire", heldByA, heldByA, heldByA)
	if _, err := l.Acquire(t.Context()); !errors.Is(err, driver.ErrQueued) {
		t.Fatalf("Acquire = %v, want ErrQueued", err)
	}
	c.answer("acquire", hangUp, hangUp, hangUp)
	if err := <-waiting(t.Context(), l); err == nil {
		t.Error("Acquire = nil, want that the service fails")
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
	if err := <-waiting(ctx, l); !errors.Is(err, context.DeadlineExceeded) {
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
	if err := <-waiting(t.Context(), l); err != nil {
		t.Errorf("Acquire = %v, want a grant", err)
	}
	eventually(t, func() error { return l.Release(t.Context()) })
}

// While no majority answers a waiter, it doesn't say that it is queued: the engine would take that for a
// recent answer. It says so again when a majority answers.
func TestWaiterWithoutAMajorityIsNotQueued(t *testing.T) {
	c := newCluster(t, 3, time.Second)
	l := waiter(t, c)
	c.answer("acquire", heldByA, hangUp, hangUp)
	var asks *driver.HeldError
	if _, err := l.Acquire(t.Context()); !errors.As(err, &asks) || errors.Is(err, driver.ErrQueued) {
		t.Fatalf("Acquire that one of three servers answers = %v, want that it asks again", err)
	}
	c.answer("acquire", heldByA, heldByA, hangUp)
	if _, err := l.Acquire(t.Context()); !errors.Is(err, driver.ErrQueued) {
		t.Fatalf("Acquire that two of three servers answer = %v, want ErrQueued", err)
	}
	c.answer("acquire", raised, raised, raised)
	if _, err := l.Acquire(t.Context()); err != nil {
		t.Errorf("Acquire = %v, want a grant", err)
	}
	eventually(t, func() error { return l.Release(t.Context()) })
}

// timed is the context of a caller whose time is up when a test says so.
type timed struct {
	context.Context
	up chan struct{}
}

func (c timed) Done() <-chan struct{} { return c.up }

func (c timed) Err() error {
	select {
	case <-c.up:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// A waiter whose time is up while the servers have been silent for more than a second doesn't know that
// the lock is held.
func TestWaiterWithSilentServersHasNoAnswer(t *testing.T) {
	t.Parallel()
	const ttl = 40 * time.Second
	c := newCluster(t, 3, 500*time.Millisecond)
	l := driver.New(unclosed{c.Driver}, driver.Config{TTL: ttl})
	c.answer("acquire", heldByA, heldByA, heldByA)
	ctx := timed{t.Context(), make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		_, err := l.Acquire(ctx, "a")
		done <- err
	}()
	placed(t, c)
	c.answer("acquire", silent, silent, silent)
	c.asked(t, 0, "acquire", c.servers[0].called("acquire")+3) // with three quarters of a second in between, at least
	close(ctx.up)
	if err := <-done; errors.Is(err, locker.ErrHeld) || !errors.Is(err, locker.ErrNoAnswer) {
		t.Errorf("Acquire of silent servers, out of time = %v, want ErrNoAnswer in place of ErrHeld", err)
	}
	if err := l.Close(); err != nil && !errors.Is(err, locker.ErrNoAnswer) {
		t.Errorf("Close = %v", err)
	}
}
