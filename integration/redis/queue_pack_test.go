//go:build unix

package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// queuePack is the queue on the server, and who waits in it. A waiter may die at its head in three ways, each with a bound of its own
// until the next one has the lock.
func (s *Service) queuePack() []conformance.Case {
	return []conformance.Case{
		{ID: "I20", Name: "killed-waiter-is-passed-over-at-once", Run: s.waiterKilled,
			Why: "the connections of a killed process end, so nobody has to wait for a TTL to be sure that it is dead"},
		{ID: "I21", Name: "stopped-waiter-is-passed-over-within-its-ttl", Run: s.waiterStopped,
			Why: "a process that was stopped looks alive for a while; it may cost the others a TTL of its own, and no more"},
		{ID: "I22", Name: "half-open-waiter-is-passed-over-within-its-ttl", Run: s.waiterHalfOpen,
			Why: "when a cable is cut the server sees a connection that stands; that may cost a TTL of that waiter, and no more"},
		{ID: "I22.1", Name: "waiters-that-die-together-cost-one-ttl", Run: s.waitersHalfOpen,
			Why: "a rack that loses its network takes many waiters away at once; together they may cost the others a TTL, and not one each"},
		{ID: "I22.2", Name: "dead-places-cost-no-more-than-the-slack", Run: s.waitersDead,
			Why: "when a lease has expired, nobody may be alive before the first who asks; the slack that Guarantees names counts all the same"},
		{ID: "I23", Name: "killed-subscription-keeps-its-place", Run: s.subscriptionKilled,
			Why: "a waiter whose subscription broke must not lose its place, nor sleep through the grant that was published meanwhile"},
		{ID: "I24", Name: "cut-subscription-comes-back", Run: s.subscriptionCut,
			Why: "a network that is cut and healed again while many wait must leave an order and no orphan"},
	}
}

// queued is nil when n acquisitions wait.
func (s *Service) queued(t conformance.T, name string, n int) error {
	t.Helper()
	if got := s.Waiters(t, name); got != n {
		return fmt.Errorf("%d acquisitions wait on the server, want %d", got, n)
	}
	return nil
}

// listening is how many of those who wait are heard by the server.
func (s *Service) listening(t conformance.T, name string) (n int) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		return s.where(ctx, func(ctx context.Context, node *Node) error {
			places, err := node.Admin.HVals(ctx, key(name)+":waiters").Result()
			if err != nil {
				return err
			}
			for _, place := range places {
				channel := strings.SplitN(place, " ", 4)[3]
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
	step.Eventually(t, itest.Soon, func() error { return s.queued(t, name, 1) })
	return p
}

// waiterKilled gives the dead one a TTL that is far longer than what the case allows. The server must have seen that the
// connection has ended, which it does without delay, but not before the process is gone.
func (s *Service) waiterKilled(t conformance.T, _ *conformance.Harness) {
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.Far))
	p := s.waitingProcess(t, name, itest.Far)
	next := step.StartAcquire(t, other, name, locker.WithTTL(itest.Far))
	step.Eventually(t, itest.Soon, func() error { return s.queued(t, name, 2) })
	p.Kill()
	step.Eventually(t, itest.Soon, func() error {
		if n := s.listening(t, name); n != 1 {
			return fmt.Errorf("%d who wait are heard, want the one that lives", n)
		}
		return nil
	})
	step.Release(t, lease)
	step.Release(t, next.Granted(t, itest.Soon))
}

func (s *Service) waiterStopped(t conformance.T, _ *conformance.Harness) {
	for _, before := range []time.Duration{0, itest.ShortTTL} { // it stands still when the lock is released
		l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
		lease := step.Acquire(t, l, name, locker.WithTTL(itest.Far))
		p := s.waitingProcess(t, name, itest.ShortTTL)
		next := step.StartAcquire(t, other, name, locker.WithTTL(itest.Far))
		step.Eventually(t, itest.Soon, func() error { return s.queued(t, name, 2) })
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
		lease := step.Acquire(t, l, name, locker.WithTTL(itest.Far))
		dead := step.StartAcquire(t, cut, name, locker.WithTTL(itest.ShortTTL))
		step.Eventually(t, itest.Soon, func() error { return s.queued(t, name, 1) })
		step.Eventually(t, itest.Soon, func() error { return s.answered(t, cut, name) })
		next := step.StartAcquire(t, other, name, locker.WithTTL(itest.Far))
		step.Eventually(t, itest.Soon, func() error { return s.queued(t, name, 2) })
		link.Cut()
		step.Pass(t, before)
		passedOver(t, lease, next, itest.ShortTTL)
		link.Heal()
		step.Pass(t, itest.ShortTTL)
		dead.WantPending(t)
		step.WantLive(t, next.Lease, l)
		step.Release(t, next.Lease)
		step.Release(t, dead.Granted(t, itest.Soon))
	}
}

// waitersHalfOpen has more die than are told when a lease of theirs is over. Then the next one alive finds out when it renews its
// place.
func (s *Service) waitersHalfOpen(t conformance.T, _ *conformance.Harness) {
	for _, c := range []struct {
		dead  int
		ttl   time.Duration // of the next one
		after time.Duration
	}{
		{4, itest.Far, itest.ShortTTL},
		{6, 6 * itest.ShortTTL, itest.ShortTTL + 2*itest.ShortTTL},
	} {
		l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
		lease := step.Acquire(t, l, name, locker.WithTTL(itest.Far))
		var links []conformance.Link
		for i := range c.dead {
			dead, link := s.linked(t)
			step.CloseAtEnd(t, dead)
			t.Cleanup(link.Heal)
			links = append(links, link)
			step.StartAcquire(t, dead, name, locker.WithTTL(itest.ShortTTL))
			step.Eventually(t, itest.Soon, func() error { return s.queued(t, name, i+1) })
		}
		next := step.StartAcquire(t, other, name, locker.WithTTL(c.ttl))
		step.Eventually(t, itest.Soon, func() error { return s.queued(t, name, c.dead+1) })
		for _, link := range links {
			link.Cut()
		}
		passedOver(t, lease, next, c.after)
		step.Release(t, next.Lease)
	}
}

// waitersDead puts the places of many that don't listen before a waiter, which has nothing to wait for but the end of a lease. Its own
// renewals are too late to matter.
func (s *Service) waitersDead(t conformance.T, _ *conformance.Harness) {
	const (
		dead  = 200
		ttl   = 2 * itest.ShortTTL // of the lease
		limit = ttl + time.Second + 100*time.Millisecond
	)
	l, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	queue, waiters := key(name)+":queue", key(name)+":waiters"
	itest.Must(t, func(ctx context.Context) error {
		return s.where(ctx, func(ctx context.Context, node *Node) error {
			pipe := node.Admin.TxPipeline()
			place := fmt.Sprintf("%d %d 1 nobody", itest.Far.Milliseconds(), node.Admin.Time(ctx).Val().UnixMilli())
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
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.Far))
	took := time.Since(began)
	t.Logf("the one behind them had the lock after %v", took)
	if took > limit {
		t.Errorf("the one behind %d dead had the lock after %v, want at most %v", dead, took, limit)
	}
	step.Release(t, lease)
}

// passedOver releases the lock, which the next one must have within the bound, and 100 ms.
func passedOver(t conformance.T, lease locker.Lease, next *step.Attempt, bound time.Duration) {
	t.Helper()
	const slack = time.Second // of this machine
	began := time.Now()
	step.Release(t, lease)
	next.Granted(t, step.Limit)
	took := time.Since(began)
	t.Logf("the next one had the lock after %v", took)
	if limit := bound + 100*time.Millisecond + slack; took > limit {
		t.Errorf("the next one had the lock after %v, want at most %v", took, limit)
	}
}

// subscriptionKilled releases the lock when all listen again, and before: then the first that is back gets it, because the server
// doesn't know which of them lives.
func (s *Service) subscriptionKilled(t conformance.T, _ *conformance.Harness) {
	for _, back := range []bool{true, false} {
		holder, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
		lease := step.Acquire(t, holder, name, locker.WithTTL(itest.Far))
		var all []*step.Attempt
		for i := range 3 {
			all = append(all, step.StartAcquire(t, step.CloseAtEnd(t, s.Open(t)), name, locker.WithTTL(itest.Far)))
			step.Eventually(t, itest.Soon, func() error { return s.queued(t, name, i+1) })
		}
		s.all(t, "client", "kill", "type", "pubsub")
		if back {
			step.Eventually(t, itest.Soon, func() error {
				if n := s.listening(t, name); n != len(all) {
					return fmt.Errorf("%d who wait are heard, want all %d again", n, len(all))
				}
				return nil
			})
		}
		step.Release(t, lease)
		for range all {
			i := step.FirstGranted(t, itest.Soon, all)
			if i > 0 && back {
				t.Errorf("the waiter at place %d of the queue has got the lock", i)
			}
			step.Release(t, all[i].Granted(t, 0))
			all = slices.Delete(all, i, i+1)
		}
	}
}

// subscriptionCut cuts for longer than a place lives, and for shorter. Where the place has died a waiter takes another, and if just
// that request is lost, it may fail.
func (s *Service) subscriptionCut(t conformance.T, _ *conformance.Harness) {
	for _, ttl := range []time.Duration{itest.ShortTTL, 8 * itest.ShortTTL} {
		holder, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
		waiter, link := s.linked(t)
		step.CloseAtEnd(t, waiter)
		t.Cleanup(link.Heal)
		lease := step.Acquire(t, holder, name, locker.WithTTL(itest.Far))
		var all []*step.Attempt
		for i := range 3 { // one of them at a time is in the server's queue
			all = append(all, step.StartAcquire(t, waiter, name, locker.WithTTL(ttl)))
			if i == 0 {
				step.Eventually(t, itest.Soon, func() error { return s.queued(t, name, 1) })
				step.Eventually(t, itest.Soon, func() error { return s.answered(t, waiter, name) })
			}
		}
		for range 2 {
			link.Cut()
			step.Pass(t, 2*itest.ShortTTL)
			link.Heal()
			step.Pass(t, itest.ShortTTL)
		}
		link.Sever()
		step.Release(t, lease)
		for range all {
			i := step.FirstReturned(t, itest.Soon, all)
			if err := all[i].Err; err != nil && ttl == itest.ShortTTL && !errors.Is(err, locker.ErrHeld) {
				t.Logf("Acquire = %v", err)
			} else {
				step.Release(t, all[i].Granted(t, 0))
			}
			all = slices.Delete(all, i, i+1)
		}
		step.FreeWithin(t, itest.Soon, holder, name)
	}
}
