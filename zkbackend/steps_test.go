package zkbackend_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/zkbackend"
)

const (
	tick = 100 * time.Millisecond
	ttl  = 2 * time.Second
	soon = 10 * time.Second // bounds what must happen
)

// open opens a Locker on the tests' server.
func open(t *testing.T, s *server, opts ...zkbackend.Option) locker.Locker {
	t.Helper()
	opts = append([]zkbackend.Option{zkbackend.WithTick(tick), zkbackend.WithDefaultTTL(ttl)}, opts...)
	l, err := s.new(opts...)
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Logf("Close at the end = %v", err)
		}
	})
	s.asked()
	return l
}

func (s *server) new(opts ...zkbackend.Option) (locker.Locker, error) {
	return zkbackend.New(context.Background(), []string{s.addr}, append([]zkbackend.Option{zkbackend.WithDialer(s.dial)}, opts...)...)
}

func acquire(t *testing.T, l locker.Locker, name string, opts ...locker.Option) locker.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	lease, err := l.Acquire(ctx, name, opts...)
	if err != nil {
		t.Fatalf("Acquire(%q) = %v, want a lease", name, err)
	}
	return lease
}

func release(t *testing.T, lease locker.Lease) {
	t.Helper()
	if err := lease.Release(t.Context()); err != nil {
		t.Fatalf("Release = %v, want nil", err)
	}
}

// lost waits for the loss of a lease, whose cause must match.
func lost(t *testing.T, d time.Duration, lease locker.Lease, says string) {
	t.Helper()
	select {
	case <-lease.Done():
	case <-time.After(d):
		t.Fatalf("after %v the lease is not lost", d)
	}
	if err := lease.Err(); !errors.Is(err, locker.ErrLost) || !contains(err, says) {
		t.Fatalf("Err = %v, want ErrLost that speaks of %q", err, says)
	}
}

// waiter is an Acquire that runs at the same time as the test.
type waiter struct {
	cancel context.CancelFunc
	done   chan struct{}
	lease  locker.Lease
	err    error
}

func wait(t *testing.T, l locker.Locker, name string, opts ...locker.Option) *waiter {
	ctx, cancel := context.WithCancel(t.Context())
	w := &waiter{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.lease, w.err = l.Acquire(ctx, name, opts...)
	}()
	t.Cleanup(func() {
		cancel()
		<-w.done
	})
	return w
}

func (w *waiter) granted(t *testing.T) locker.Lease {
	t.Helper()
	select {
	case <-w.done:
	case <-time.After(soon):
		t.Fatalf("Acquire has not returned after %v", soon)
	}
	if w.err != nil {
		t.Fatalf("Acquire = %v, want a lease", w.err)
	}
	return w.lease
}

func (w *waiter) pending(t *testing.T) {
	t.Helper()
	select {
	case <-w.done:
		t.Fatalf("Acquire has returned: %v", w.err)
	default:
	}
}

// eventually looks again and again.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !cond(); {
		if time.Now().After(end) {
			t.Fatalf("after %v still not: %s", soon, what)
		}
		time.Sleep(time.Millisecond)
	}
}

// nodes waits until so many nodes of a lock are there.
func (s *server) nodesAre(t *testing.T, name string, n int) {
	t.Helper()
	eventually(t, "the right number of nodes", func() bool { return len(s.children(name)) == n })
}

func (s *server) wasAsked(t *testing.T, what string, want ...string) {
	t.Helper()
	if got := s.asked(); !slices.Equal(got, want) {
		t.Errorf("%s asked for %q, want %q", what, got, want)
	}
}
