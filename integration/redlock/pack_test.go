//go:build unix

package redlock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// pack contains the cases of Redlock, in addition to the suite.
func (s *Service) pack() []conformance.Case {
	return slices.Concat([]conformance.Case{
		{ID: "I30", Name: "new-servers-wait-without-one", Run: s.newServersWithoutOne,
			Why: "a waiter must get the lock when new servers take part, also if one of them is " +
				"down"},
		{ID: "I6", Name: "new-servers-wait", Run: s.newServers,
			Why: "a server that has lost its memory may have forgotten a lease; a waiter must " +
				"get the lock when that lease must be over, and a caller that doesn't wait must " +
				"get the reason"},
		{ID: "I10", Name: "script-flush-is-survived", Run: s.scriptFlush,
			Why: "an operator may empty the script cache at any time, and a restart empties it; " +
				"no operation may fail because of that"},
		{ID: "I11", Name: "killed-clients-cost-nothing", Run: s.clientsKilled,
			Why: "CLIENT KILL, a proxy or a firewall can end a connection; leases must not " +
				"depend on connections"},
		{ID: "I12", Name: "late-clock-costs-a-phase-and-no-order", Run: s.countersAhead,
			Why: "a client whose clock is behind the clocks of the others must get larger " +
				"tokens all the same"},
		{ID: "I15", Name: "many-second-phases-at-once", Run: s.manyCountersAhead,
			Why: "requests that are joined must not change their kind: a second phase that is " +
				"sent as a first phase wins nothing, and leaves a lock"},
	}, s.downPack(), s.openPack(), s.waitPack(), s.forgetPack(), s.alivePack(), s.databasePack())
}

func (s *Service) newServers(t conformance.T, _ *conformance.Harness) {
	const longest = 3 * time.Second
	u := s.with("prefix", step.LockName(t)+":", "max_ttl", longest.String(), "ttl", "1s")
	l := step.CloseAtEnd(t, itest.OpenURL(t, u))
	began := time.Now()
	if err := step.WantFailure(t, itest.ShortWait, l, "a"); !strings.Contains(err.Error(), "forgotten") {
		t.Errorf("TryAcquire = %v, want it to say that the servers may have forgotten leases", err)
	} else if !strings.Contains(err.Error(), "new_cluster") {
		t.Errorf("TryAcquire = %v, want it to say what to do about new servers", err)
	}
	lease := step.Acquire(t, l, "a")
	if took := time.Since(began); took < longest-time.Second {
		t.Errorf("Acquire took %v, want it to wait for %v", took, longest)
	}
	step.Release(t, lease)

	// A waiver counts only where no server knows anything.
	waiver := itest.Changed(u, addParam("new_cluster", "true"))
	s.forget(t, u, s.Nodes[:3])
	lax := step.CloseAtEnd(t, itest.OpenURL(t, waiver))
	_ = step.WantFailure(t, itest.ShortWait, lax, "b")
	s.forget(t, u, s.Nodes)
	fresh := step.CloseAtEnd(t, itest.OpenURL(t, waiver))
	step.FreeWithin(t, 0, fresh, "b")
}

// newServersWithoutOne has the server that is away say so before the others have answered.
func (s *Service) newServersWithoutOne(t conformance.T, _ *conformance.Harness) {
	const longest = 2 * time.Second
	back := s.without(t, "gone", s.Nodes[:1])
	defer back()
	for range 5 {
		l := step.CloseAtEnd(t, itest.OpenURL(t, s.with("prefix", step.LockName(t)+":", "max_ttl", longest.String(), "ttl", "1s")))
		began := time.Now()
		lease := step.Acquire(t, l, "a")
		if took := time.Since(began); took < longest-time.Second {
			t.Errorf("Acquire took %v, want it to wait for %v", took, longest)
		}
		step.Release(t, lease)
	}
}

func (s *Service) scriptFlush(t conformance.T, _ *conformance.Harness) {
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.ShortTTL))
	s.all(t, "script", "flush")
	if err := lease.Renew(t.Context()); err != nil {
		t.Errorf("Renew = %v, want nil", err)
	}
	waiter := step.StartAcquire(t, other, name)
	s.all(t, "script", "flush")
	step.Pass(t, 2*itest.ShortTTL) // renewed in the background
	step.WantLive(t, lease, other)
	waiter.WantPending(t)
	s.all(t, "script", "flush")
	step.Release(t, lease)
	next := waiter.Granted(t, itest.ShortWait)
	s.all(t, "script", "flush")
	step.Release(t, next)
	s.all(t, "script", "flush")
	step.FreeWithin(t, 0, l, name)
}

func (s *Service) clientsKilled(t conformance.T, _ *conformance.Harness) {
	const ttl = 3 * itest.ShortTTL // whose renewals fail each time
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(ttl))
	waiter := step.StartAcquire(t, other, name)
	step.Eventually(t, itest.ShortWait, func() error { // its first request may fail when its connection is ended
		if n := s.Waiters(t, name); n != 1 {
			return fmt.Errorf("%d wait on most servers, want 1", n)
		}
		return nil
	})
	for range 5 {
		s.all(t, "client", "kill", "type", "normal", "skipme", "yes")
		s.all(t, "client", "kill", "type", "pubsub")
		step.Pass(t, ttl/2)
		step.WantLive(t, lease, step.CloseAtEnd(t, s.Open(t)))
	}
	waiter.WantPending(t)
	s.all(t, "client", "kill", "type", "normal", "skipme", "yes")
	step.FreeWithin(t, itest.ShortWait, l, step.LockName(t)) // a request on a connection that has ended may fail
	if err := lease.Release(t.Context()); err != nil {
		t.Logf("Release = %v", err)
	}
	step.Release(t, waiter.Granted(t, itest.ShortWait))
	step.FreeWithin(t, itest.ShortWait, l, name)
}

// countersAhead has the servers agree to tokens before, of a client whose clock is ahead.
func (s *Service) countersAhead(t conformance.T, _ *conformance.Harness) {
	l, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	for _, ahead := range [][]time.Duration{
		{time.Second, time.Second, time.Second, time.Second, time.Second},
		{0, time.Second, 2 * time.Second, 0, 0},
		{50 * time.Second, 0, 50 * time.Second, 0, 50 * time.Second},
		{30 * time.Hour, 0, 0, 52 * time.Second, 0}, // one is beyond what the others can be raised to
	} {
		var counters []int64
		itest.Must(t, func(ctx context.Context) error {
			counters = nil
			for i, n := range s.Nodes {
				counter := time.Now().Add(ahead[i]).UnixMicro()
				counters = append(counters, counter)
				if err := n.Admin.Set(ctx, redlockKey(name)+":token", counter, itest.LongTTL).Err(); err != nil {
					return err
				}
			}
			return nil
		})
		var last locker.Token
		for range 10 {
			token := step.FreeWithin(t, 0, l, name)
			if token <= last {
				t.Errorf("with counters ahead by %v: token %d after %d", ahead, token, last)
			}
			last = token
			above := 0
			for _, c := range counters {
				if int64(token) > c {
					above++
				}
			}
			if above < 3 {
				t.Errorf("with counters ahead by %v: token %d is above %d of the counters %d, want a majority", ahead, token, above, counters)
			}
		}
	}
}

// manyCountersAhead has many acquisitions need their second phase at the same time.
func (s *Service) manyCountersAhead(t conformance.T, _ *conformance.Harness) {
	const locks = 400 // so many that they are in one another's way for longer than an acquisition tries
	l, other, name := step.CloseAtEnd(t, itest.OpenURL(t, s.with("server_timeout", "5s"))), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	names := make([]string, locks)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", name, i)
	}
	itest.Must(t, func(ctx context.Context) error {
		for i, n := range s.Nodes {
			pipe := n.Admin.Pipeline()
			for j, name := range names { // each is further ahead: or what the Locker learns from one would do for all
				ahead := 15*time.Second + time.Duration(j)*30*time.Second/locks + time.Duration(i)*time.Second/60
				pipe.Set(ctx, redlockKey(name)+":token", time.Now().Add(ahead).UnixMicro(), itest.LongTTL)
			}
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	errs := make(chan error, locks)
	for _, name := range names {
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), step.Limit)
			defer cancel()
			lease, err := locker.TryAcquire(ctx, l, name)
			if err == nil {
				err = lease.Release(ctx)
			}
			errs <- err
		}()
	}
	for range locks {
		if err := <-errs; err != nil {
			t.Errorf("of %d locks that nobody holds, taken at the same time: %v", locks, err)
		}
	}
	for _, name := range names {
		step.FreeWithin(t, 0, other, name) // nothing is left of what the raises did
	}
}
