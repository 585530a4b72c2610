package redlockbackend_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
	"github.com/fencedlock/locker/redlockbackend"
)

// A server that is slower than the majority, or was silent for a moment, still counts when others
// fail.

// late answers after a while, each time.
func late(answer string) func() string {
	return func() string {
		time.Sleep(20 * time.Millisecond)
		return answer
	}
}

// If the slowest server isn't asked to renew a lease, the lease ends there, and is attached to the
// others alone.
func TestSlowServerRenewsAll(t *testing.T) {
	const leases = 300 // in several requests
	c := newCluster(t, 3, 5*time.Second)
	c.answer("acquire", raised, raised, raised)
	var locks []driver.Lock
	for i := range leases {
		l, err := c.Lock(locker.Request{Name: fmt.Sprint(i), TTL: ttl}, func(cause error) { t.Errorf("lost: %v", cause) })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		locks = append(locks, l)
	}
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	c.answer("renew", renewed, renewed)
	c.servers[2].does("renew", late(renewed))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	c.Renew(ctx, locks, func(i int, _ driver.Instant, err error) {
		if err != nil {
			t.Errorf("Renew of %d = %v", i, err)
		}
	})
	cancel() // as the engine does
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	for i, s := range c.servers {
		if n := s.asked("renew"); n != leases {
			t.Errorf("server %d was asked to renew %d leases, want %d", i, n, leases)
		}
	}
}

// Nobody waits for a server that was silent the last time, as long as the others can decide without
// it.
func TestServerThatWasSilentDecides(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		other  string
		noWait bool
	}{{hangUp, true}, {hangUp, false}, {heldByA, true}} {
		c := newCluster(t, 3, time.Second)
		c.answer("acquire", raised, raised, silent)
		c.answer("release", text("released"), text("released"), silent)
		l := c.lock(t, true)
		if _, err := l.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		redlockbackend.AwaitIdle(t.Context(), c.Driver)
		c.answer("acquire", tc.other, raised)
		c.servers[2].does("acquire", late(raised))
		if _, err := c.lock(t, tc.noWait).Acquire(t.Context()); err != nil {
			t.Errorf("Acquire when one server answers %q and two grant, one of them late = %v, want a lease", tc.other, err)
		}
	}
}

// A server doesn't count as silent because a request gives it a few milliseconds.
func TestSilenceTakesTime(t *testing.T) {
	c, l := grantedByAll(t)
	c.answer("renew", silent, silent, silent)
	for _, limit := range []time.Duration{3 * time.Millisecond, 10 * redisconn.LeastSilence} {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		c.Renew(ctx, []driver.Lock{l}, func(int, driver.Instant, error) {})
		cancel()
		redlockbackend.AwaitIdle(t.Context(), c.Driver)
		took := time.Since(began)
		if got, want := redlockbackend.IsSilent(c.Driver, 2), limit > redisconn.LeastSilence; got != want && (want || took < redisconn.LeastSilence) {
			t.Errorf("after %v without an answer a server counts as silent: %v, want %v", took, got, want)
		}
	}
}

// Several such requests, one after the other, do: the server may be gone.
func TestShortSilencesAddUp(t *testing.T) {
	const limit = redisconn.LeastSilence / 2
	c, l := grantedByAll(t)
	c.answer("renew", silent, silent, silent)
	for began := time.Now(); !redlockbackend.IsSilent(c.Driver, 2); {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("no request of %v was answered for 10 s, and the server doesn't count as silent", limit)
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		c.Renew(ctx, []driver.Lock{l}, func(int, driver.Instant, error) {})
		cancel()
		redlockbackend.AwaitIdle(t.Context(), c.Driver)
	}
}

// One server that has restarted answers that it takes no part yet, and the others don't answer. Nobody may hold
// the lock, or somebody: the service has failed, and that isn't decided before the last one has had its time.
func TestOneServerThatWaitsIsNoMajority(t *testing.T) {
	for _, wasSilent := range []bool{false, true} {
		c := newCluster(t, 3, 10*time.Second)
		c.answer("acquire", waits, hangUp)
		c.servers[2].does("acquire", late(hangUp))
		if wasSilent {
			redlockbackend.MarkSilent(c.Driver, 2)
		}
		if _, err := c.lock(t, false).Acquire(t.Context()); err == nil || errors.Is(err, locker.ErrHeld) {
			t.Errorf("Acquire when one of three answers, that it waits (one was silent before: %v) = %v, want an error of the service", wasSilent, err)
		}
		c.servers[2].does("acquire", late(waits))
		if _, err := c.lock(t, false).Acquire(t.Context()); !errors.Is(err, driver.ErrQueued) {
			t.Errorf("Acquire when two of three answer, that they wait (one was silent before: %v) = %v, want ErrQueued", wasSilent, err)
		}
	}
}

// Attempts that may have left something are not collected without end where one server never
// answers. It hangs up, so that nothing here is a matter of time: what was sent may have been
// executed all the same.
func TestAttemptsAreBounded(t *testing.T) {
	const most = 100
	c := newCluster(t, 3, ttl/2)
	c.answer("acquire", heldByA, heldByA, hangUp)
	c.answer("release", text("released"), text("released"), hangUp)
	l := c.lock(t, true)
	for range most + 50 {
		if _, err := l.Acquire(t.Context()); !errors.Is(err, locker.ErrHeld) {
			t.Fatalf("Acquire of a lock that somebody has = %v, want ErrHeld", err)
		}
	}
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	before := c.servers[2].asked("release")
	err := l.Release(t.Context())
	if !errors.As(err, new(*driver.PartialReleaseError)) {
		t.Errorf("Release = %v, want what remains on the server that hangs up", err)
	}
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	if n := (c.servers[2].asked("release") - before) / redlockbackend.MaxReleaseTries; n > most || n < most/2 {
		t.Errorf("Release asked the server that hangs up about %d attempts, want %d at most, and not far less: all have left something", n, most)
	}
}

// A server that hangs costs a bounded number of goroutines, though the others grant and release
// many locks in the time that it has to answer.
func TestSilentServerCostsLittle(t *testing.T) {
	c := newCluster(t, 3, 10*time.Second)
	c.answer("acquire", raised, raised)
	answer := c.servers[2].gated(t, "acquire", raised)
	redlockbackend.MarkSilent(c.Driver, 2)
	var locks []driver.Lock
	for i := range 3 * redlockbackend.MostUnanswered {
		l, err := c.Lock(locker.Request{Name: fmt.Sprint(i), TTL: ttl, NoWait: true}, func(cause error) { t.Errorf("lost: %v", cause) })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		locks = append(locks, l)
		if n := redlockbackend.Busy(c.Driver); n > redlockbackend.MostUnanswered+10 {
			t.Fatalf("%d goroutines wait, want %d at most, and those of one lock", n, redlockbackend.MostUnanswered)
		}
	}
	answer()
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	for _, l := range locks {
		if err := c.released(t, l); err != nil {
			t.Errorf("Release = %v, want nil", err)
		}
	}
}

// A question returns when its context ends, though the clients mind deadlines only.
func TestQuestionsReturnWhenTheirCallersLeave(t *testing.T) {
	c := newCluster(t, 3, 5*time.Second)
	questions := map[string]func(ctx context.Context) error{
		"Inspect": func(ctx context.Context) error {
			_, err := c.Driver.(driver.Inspector).Inspect(ctx, "a", locker.Look{})
			return err
		},
		"List": func(ctx context.Context) error {
			_, _, err := c.Driver.(driver.Inspector).List("", 0)(ctx)
			return err
		},
		"Break": func(ctx context.Context) error {
			_, err := c.Driver.(driver.Breaker).Break(ctx, "a", 7, bob)
			return err
		},
	}
	for what, ask := range questions {
		arrived := make(chan struct{}, 10)
		silentAt := "inspect"
		if what == "Break" {
			c.answer("inspect", onServer("own 7"), onServer("own 7"), onServer("own 7"))
			silentAt = "break"
		}
		for _, s := range c.servers {
			s.does(silentAt, func() string { arrived <- struct{}{}; return silent })
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- ask(ctx) }()
		for range c.servers {
			<-arrived
		}
		cancel()
		cancelled := time.Now()
		err := <-done
		if took := time.Since(cancelled); !errors.Is(err, locker.ErrNoAnswer) || took > 4*time.Second {
			t.Errorf("%s = %v after %v, want that no answer has come, before a server's time is over", what, err, took)
		}
	}
}
