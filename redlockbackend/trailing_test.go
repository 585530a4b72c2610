package redlockbackend_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/redlockbackend"
)

// gated holds the answers of a server back until open is called, or the test ends.
func (f *fake) gated(t *testing.T, script, answer string) (open func()) {
	t.Helper()
	gate := make(chan struct{})
	f.does(script, func() string {
		<-gate
		return answer
	})
	open = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	return open
}

// grantedByAll returns three servers, and a lock that all of them have granted.
func grantedByAll(t *testing.T) (*cluster, driver.Lock) {
	t.Helper()
	c := newCluster(t, 3, 10*time.Second)
	c.answer("acquire", raised, raised, raised)
	l := c.lock(t, true)
	if _, err := l.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	return c, l
}

// acquireFromAll acquires l, and keeps the answer of the first server until all were asked: two answers
// may decide.
func (c *cluster) acquireFromAll(t *testing.T, l driver.Lock, first string) error {
	t.Helper()
	answer := c.servers[0].gated(t, "acquire", first)
	acquired := make(chan error, 1)
	go func() {
		_, err := l.Acquire(t.Context())
		acquired <- err
	}()
	for i := range c.servers {
		c.asked(t, i, "acquire", 1)
	}
	answer()
	return <-acquired
}

// asked waits until a server was asked to execute a script n times.
func (c *cluster) asked(t *testing.T, server int, script string, n int) {
	t.Helper()
	eventually(t, func() error {
		if c.servers[server].called(script) < n {
			return errors.New(script + " was not sent")
		}
		return nil
	})
}

// Release returns when a majority is free for others. The next acquisition of the Locker asks the
// others in order, so that its lease is attached to all servers.
func TestReleaseDoesNotWaitForSlowServer(t *testing.T) {
	c := newCluster(t, 3, 10*time.Second)
	c.answer("acquire", raised, raised, raised)
	first := c.lock(t, false)
	if _, err := first.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	answerSlow := c.servers[2].gated(t, "release", text("released"))
	err := first.Release(t.Context())
	if !errors.As(err, new(*driver.PartialReleaseError)) {
		t.Fatalf("Release while one server doesn't answer = %v, want that the lock is free", err)
	}
	c.asked(t, 2, "release", 1)
	second := c.lock(t, false)
	if _, err := second.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if n := redlockbackend.Busy(c.Driver); n != 1 {
			return fmt.Errorf("%d requests are under way, want the release alone", n)
		}
		return nil
	})
	if n := c.servers[2].called("acquire"); n != 1 {
		t.Errorf("the slow server was asked %d times, want once: its answer to the release is still to come", n)
	}
	if err := first.Release(t.Context()); !errors.As(err, new(*driver.PartialReleaseError)) {
		t.Errorf("another Release = %v, want that the lock is free", err)
	}
	answerSlow()
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	if err := first.Release(t.Context()); err != nil {
		t.Errorf("Release when all have answered = %v, want nil", err)
	}
	if got := c.called("acquire"); !slices.Equal(got, []int{2, 2, 2}) {
		t.Errorf("the servers were asked %v times, want twice each", got)
	}
	c.answer("renew", renewed, gone, renewed)
	if _, err := c.renew(t, second); err != nil { // the slow server has it as well
		t.Errorf("Renew = %v, want nil", err)
	}
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	if err := c.released(t, second); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
	if got := c.called("release"); !slices.Equal(got, []int{2, 1, 2}) {
		t.Errorf("release was sent %v times, want twice to each that has had both leases", got)
	}
}

// An acquisition that is over before its turn comes is not sent at all: or those that follow it
// would wait for requests that nobody needs.
func TestOverBeforeItsTurn(t *testing.T) {
	c := newCluster(t, 3, 10*time.Second)
	c.answer("acquire", raised, raised, raised)
	locks := []driver.Lock{c.lock(t, false), c.lock(t, false), c.lock(t, false)}
	if _, err := locks[0].Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	answerSlow := c.servers[2].gated(t, "release", text("released"))
	for i, l := range locks {
		if i > 0 {
			if _, err := l.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if i == len(locks)-1 {
			break
		}
		for range 2 { // the engine repeats a release that isn't complete
			if err := l.Release(t.Context()); !errors.As(err, new(*driver.PartialReleaseError)) {
				t.Fatalf("Release while one server doesn't answer = %v, want that the lock is free", err)
			}
		}
	}
	answerSlow()
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	if n := c.servers[2].called("acquire"); n != 2 {
		t.Errorf("the slow server was asked %d times, want twice: the second acquisition was over before its turn", n)
	}
	for _, l := range locks {
		if err := c.released(t, l); err != nil {
			t.Errorf("Release = %v, want nil", err)
		}
	}
}

// A release doesn't overtake the acquire that it is to remove, and follows it.
func TestReleaseFollowsAcquire(t *testing.T) {
	c := newCluster(t, 3, 10*time.Second)
	c.answer("acquire", raised, raised)
	answerSlow := c.servers[2].gated(t, "acquire", raised)
	l := c.lock(t, true)
	if _, err := l.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.asked(t, 2, "acquire", 1)
	if err := l.Release(t.Context()); !errors.As(err, new(*driver.PartialReleaseError)) {
		t.Fatalf("Release while one server doesn't answer = %v, want that the lock is free", err)
	}
	if n := c.servers[2].called("release"); n != 0 {
		t.Error("the release overtakes the acquire")
	}
	answerSlow()
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	if n := c.servers[2].called("release"); n != 1 {
		t.Errorf("release was sent %d times to the slow server, want once", n)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
}

// Acquire and Release return when their context ends, and what was under way is removed all the
// same.
func TestCallsObeyTheirContext(t *testing.T) {
	c := newCluster(t, 3, 10*time.Second)
	c.answer("acquire", raised)
	answerSecond := c.servers[1].gated(t, "acquire", raised)
	answerThird := c.servers[2].gated(t, "acquire", raised)
	l := c.lock(t, true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := l.Acquire(ctx)
		done <- err
	}()
	for i := range c.servers {
		c.asked(t, i, "acquire", 1)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire = %v, want the end of the context", err)
	}
	if err := l.Release(ctx); err == nil || errors.As(err, new(*driver.PartialReleaseError)) {
		t.Errorf("Release while a majority doesn't answer = %v, want an error", err)
	}
	answerSecond()
	answerThird()
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
	if got := c.called("release"); !slices.Equal(got, []int{1, 1, 1}) {
		t.Errorf("release was sent %v times, want once to each", got)
	}
}
