package redlockbackend_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/redlockbackend"
)

func isPending(err error) bool {
	var partial *driver.PartialReleaseError
	return errors.As(err, &partial) && partial.Pending
}

// A server that is only slower has not failed. If its answer is an error, the next call says so, also
// while it asks that server again, and only once.
func TestFailureAfterReleaseIsReported(t *testing.T) {
	c, l := grantedByAll(t)
	answer := c.servers[2].gated(t, "release", noPermission)
	for range 2 {
		if err := l.Release(t.Context()); !isPending(err) {
			t.Errorf("Release while a minority is slower = %v, want that answers are still to come", err)
		}
	}
	answer()
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	answer = c.servers[2].gated(t, "release", text("released"))
	err := l.Release(t.Context())
	if !isPartial(err) || isPending(err) || !strings.Contains(err.Error(), c.servers[2].addr) || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("Release after a server has refused the release = %v, want a failure of %s", err, c.servers[2].addr)
	}
	if err := l.Release(t.Context()); !isPending(err) {
		t.Errorf("Release while that server is asked again = %v, want that answers are still to come", err)
	}
	answer()
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("Release when all have answered = %v, want nil", err)
	}
}

// A waiter that gives up keeps nobody out, though it may have places on all servers. The error says
// nothing else.
func TestReleaseOfAWaiterIsPending(t *testing.T) {
	c := newCluster(t, 3, 10*time.Second)
	l := waiter(t, c)
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	for _, s := range c.servers {
		s.gated(t, "release", text("released"))
	}
	err := l.Release(t.Context())
	if !isPending(err) || strings.Contains(err.Error(), "majority") {
		t.Errorf("Release of a waiter that no server has answered = %v, want that answers are still to come", err)
	}
	if n := redlockbackend.Busy(c.Driver); n == 0 {
		t.Error("no release is under way")
	}
}

// leased returns a Locker on three servers, and a lease that is attached to all of them.
func leased(t *testing.T) (*cluster, locker.Locker, locker.Lease) {
	t.Helper()
	c := newCluster(t, 3, 10*time.Second)
	c.answer("acquire", raised, raised, raised)
	l := driver.New(unclosed{c.Driver}, driver.Config{TTL: ttl})
	lease, err := locker.TryAcquire(t.Context(), l, "a")
	if err != nil {
		t.Fatal(err)
	}
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	return c, l, lease
}

// Close waits for the answers that are still to come, so that a failure counts.
func TestFailureDuringCloseCounts(t *testing.T) {
	c, l, lease := leased(t)
	answer := c.servers[2].gated(t, "release", noPermission)
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	select {
	case err := <-closed:
		t.Errorf("Close = %v while a server has yet to answer", err)
	case <-time.After(100 * time.Millisecond):
		answer()
		if err := <-closed; err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	}
	if s, _ := locker.StatsOf(l); s.RemovalsFailed != 1 {
		t.Errorf("%d removals have failed, want 1", s.RemovalsFailed)
	}
}

// Where all servers answer, no removal has failed, though Release doesn't wait for the slowest.
func TestHealthyReleasesAreNoFailures(t *testing.T) {
	c, l, lease := leased(t)
	answer := c.servers[2].gated(t, "release", text("released"))
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
	time.Sleep(100 * time.Millisecond) // for some further calls
	answer()
	eventually(t, func() error {
		s, _ := locker.StatsOf(l)
		if s.Removing > 0 {
			return errors.New("the removal is not confirmed")
		}
		if s.RemovalsFailed > 0 || s.Released != 1 {
			t.Errorf("%d removals have failed, and %d leases were released, want 0 and 1", s.RemovalsFailed, s.Released)
		}
		return nil
	})
	if err := l.Close(); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
}
