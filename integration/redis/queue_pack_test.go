//go:build unix

package redis

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// queuePack tests the queue on the server and its waiters. A waiter at the head of the queue may
// die in three ways. Each has its own bound until the next waiter has the lock.
func (s *Service) queuePack() []conformance.Case {
	return []conformance.Case{
		{ID: "I20", Name: "killed-waiter-is-passed-over-at-once", Run: s.waiterKilled,
			Why: "when a process is killed its connections end, so the other waiters need not " +
				"wait for a TTL to know that it is dead"},
		{ID: "I21", Name: "stopped-waiter-is-passed-over-within-its-ttl", Run: s.waiterStopped,
			Why: "a stopped process looks alive for a while; it may delay the other waiters by " +
				"its own TTL, and no longer"},
		{ID: "I22", Name: "half-open-waiter-is-passed-over-within-its-ttl", Run: s.waiterHalfOpen,
			Why: "when a cable is cut the server still sees an open connection; that may delay " +
				"the other waiters by the TTL of the dead waiter, and no longer"},
		{ID: "I22.1", Name: "waiters-that-die-together-cost-one-ttl", Run: s.waitersHalfOpen,
			Why: "a rack that loses its network takes many waiters away at once; all dead " +
				"waiters together may delay the others by one TTL, and not by one TTL each"},
		{ID: "I22.2", Name: "dead-places-cost-no-more-than-the-slack", Run: s.waitersDead,
			Why: "when a lease has expired, all waiters may be dead until a new caller asks; " +
				"the slack that Guarantees states must hold for that caller as well"},
		{ID: "I23", Name: "killed-subscription-keeps-its-place", Run: s.subscriptionKilled,
			Why: "a waiter whose subscription was interrupted must not lose its place, and must " +
				"not miss the grant that was published during the interruption"},
		{ID: "I24", Name: "cut-subscription-comes-back", Run: s.subscriptionCut,
			Why: "after a network was cut and restored while many callers waited, the queue " +
				"must be in order and must contain no orphan"},
	}
}

// queued returns nil when n acquisitions wait.
func (s *Service) queued(t conformance.T, name string, n int) error {
	t.Helper()
	if got := s.Waiters(t, name); got != n {
		return fmt.Errorf("%d acquisitions wait on the server, want %d", got, n)
	}
	return nil
}

// listening returns the number of waiters that the server sees listening.
func (s *Service) listening(t conformance.T, name string) (n int) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		return s.where(ctx, func(ctx context.Context, node *Node) error {
			places, err := node.Admin.HVals(ctx, key(name)+":waiters").Result()
			if err != nil {
				return err
			}
			for _, place := range places {
				channel, _, _ := strings.Cut(strings.SplitN(place, " ", 4)[3], "\n")
				seen, err := node.Admin.PubSubNumSub(ctx, channel).Result()
				if err != nil {
					return err
				}
				n += int(seen[channel])
			}
			return nil
		})
	})
	return n
}

// waitingProcess starts a process that waits for a lock which is held.
func (s *Service) waitingProcess(t conformance.T, name string, ttl time.Duration) process.Process {
	t.Helper()
	p := itest.StartHolder(s.URL)(t)
	go func() { // no answer comes if it is killed
		_, _ = p.Do(t.Context(), process.Command{Verb: process.Acquire, Name: name, TTL: ttl})
	}()
	step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 1) })
	return p
}

// waiterKilled gives the dead one a TTL that is far longer than what the case allows. The server
// must have seen that the connection has ended, which it does without delay, but not before the
// process is gone.
func (s *Service) waiterKilled(t conformance.T, _ *conformance.Harness) {
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.LongTTL))
	p := s.waitingProcess(t, name, itest.LongTTL)
	next := step.StartAcquire(t, other, name, locker.WithTTL(itest.LongTTL))
	step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 2) })
	p.Kill()
	step.Eventually(t, itest.ShortWait, func() error {
		if n := s.listening(t, name); n != 1 {
			return fmt.Errorf("the server sees %d waiters listening, want the one that lives", n)
		}
		return nil
	})
	step.Release(t, lease)
	step.Release(t, next.Granted(t, itest.ShortWait))
}

func (s *Service) waiterStopped(t conformance.T, _ *conformance.Harness) {
	for _, before := range []time.Duration{0, itest.ShortTTL} { // the process is stopped when the lock is released
		l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
		lease := step.Acquire(t, l, name, locker.WithTTL(itest.LongTTL))
		p := s.waitingProcess(t, name, itest.ShortTTL)
		next := step.StartAcquire(t, other, name, locker.WithTTL(itest.LongTTL))
		step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 2) })
		p.Stop()
		step.Pass(t, before)
		passedOver(t, lease, next, itest.ShortTTL)
		p.Continue()
		step.Pass(t, itest.ShortTTL)
		step.WantLive(t, next.Lease, l) // whatever the one that woke has done
		step.Release(t, next.Lease)
		p.Kill()
	}
}

func (s *Service) waiterHalfOpen(t conformance.T, _ *conformance.Harness) {
	for _, before := range []time.Duration{0, itest.ShortTTL} {
		l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
		cut, link := s.linked(t)
		step.CloseAtEnd(t, cut)
		t.Cleanup(link.Heal)
		lease := step.Acquire(t, l, name, locker.WithTTL(itest.LongTTL))
		dead := step.StartAcquire(t, cut, name, locker.WithTTL(itest.ShortTTL))
		step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 1) })
		step.Eventually(t, itest.ShortWait, func() error { return s.answered(t, cut, name) })
		next := step.StartAcquire(t, other, name, locker.WithTTL(itest.LongTTL))
		step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 2) })
		link.Cut()
		step.Pass(t, before)
		passedOver(t, lease, next, itest.ShortTTL)
		link.Heal()
		step.Pass(t, itest.ShortTTL)
		dead.WantPending(t)
		step.WantLive(t, next.Lease, l)
		step.Release(t, next.Lease)
		step.Release(t, dead.Granted(t, itest.ShortWait))
	}
}

// waitersHalfOpen lets more waiters die than are notified of the end of a lease. The next one alive
// then learns of it when it renews its place.
func (s *Service) waitersHalfOpen(t conformance.T, _ *conformance.Harness) {
	for _, c := range []struct {
		dead  int
		ttl   time.Duration // of the next one
		after time.Duration
	}{
		{4, itest.LongTTL, itest.ShortTTL},
		{6, 12 * itest.ShortTTL, itest.ShortTTL + 4*itest.ShortTTL},
	} {
		l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
		lease := step.Acquire(t, l, name, locker.WithTTL(itest.LongTTL))
		var links []conformance.Link
		for i := range c.dead {
			dead, link := s.linked(t)
			step.CloseAtEnd(t, dead)
			t.Cleanup(link.Heal)
			links = append(links, link)
			step.StartAcquire(t, dead, name, locker.WithTTL(itest.ShortTTL))
			step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, i+1) })
		}
		next := step.StartAcquire(t, other, name, locker.WithTTL(c.ttl))
		step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, c.dead+1) })
		for _, link := range links {
			link.Cut()
		}
		passedOver(t, lease, next, c.after)
		step.Release(t, next.Lease)
	}
}

// waitersDead puts the places of many that don't listen before a waiter, which has nothing to wait
// for but the end of a lease. Its own renewals are too late to matter.
func (s *Service) waitersDead(t conformance.T, _ *conformance.Harness) {
	const (
		dead  = 200
		ttl   = 2 * itest.ShortTTL // of the lease
		limit = ttl + slack
	)
	l, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	queue, waiters := key(name)+":queue", key(name)+":waiters"
	itest.Must(t, func(ctx context.Context) error {
		return s.where(ctx, func(ctx context.Context, node *Node) error {
			pipe := node.Admin.TxPipeline()
			place := fmt.Sprintf("%d %d 1 nobody", itest.LongTTL.Milliseconds(), node.Admin.Time(ctx).Val().UnixMilli())
			for i := range dead {
				owner := fmt.Sprintf("%032d", i)
				pipe.ZAdd(ctx, queue, redis.Z{Score: float64(i), Member: owner})
				pipe.HSet(ctx, waiters, owner, place)
			}
			pipe.Set(ctx, key(name), fmt.Sprintf("%032d 1", dead), ttl)
			_, err := pipe.Exec(ctx)
			return err
		})
	})
	t.Cleanup(func() {
		itest.Must(t, func(ctx context.Context) error {
			return s.where(ctx, func(ctx context.Context, node *Node) error { return node.Admin.Del(ctx, queue, waiters).Err() })
		})
	})
	began := time.Now()
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.LongTTL))
	took := time.Since(began)
	t.Logf("the one after them had the lock after %v", took)
	if took > limit {
		t.Errorf("the one after %d dead had the lock after %v, want at most %v", dead, took, limit)
	}
	step.Release(t, lease)
}

// slack is how late a busy machine may be.
const slack = 2 * itest.ShortTTL

// passedOver releases the lock, which the next one must have within the bound.
func passedOver(t conformance.T, lease locker.Lease, next *step.Attempt, bound time.Duration) {
	t.Helper()
	began := time.Now()
	step.Release(t, lease)
	next.Granted(t, step.Limit)
	took := time.Since(began)
	t.Logf("the next one had the lock after %v", took)
	if limit := bound + slack; took > limit {
		t.Errorf("the next one had the lock after %v, want at most %v", took, limit)
	}
}
