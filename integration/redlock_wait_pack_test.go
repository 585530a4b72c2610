//go:build unix

package integration

import (
	"fmt"
	"slices"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// waitPack is contenders who get in one another's way.
func (s *redlockService) waitPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I4", Name: "split-votes-end", Run: s.splitVotes,
			Why: "several who ask at the same time can get some servers each; one of them must get ahead, again and again"},
		{ID: "I14", Name: "release-leaves-the-next-its-place", Run: s.nextOfTheSameLocker,
			Why: "a Locker has one place in a lock's queue; the holder that lets go must not take away that of the next in its own process"},
	}
}

func (s *redlockService) splitVotes(t conformance.T, _ *conformance.Harness) {
	for _, contenders := range []int{2, 5} {
		name := lockName(t)
		var all []locker.Locker
		for range contenders {
			all = append(all, keep(t, s.open(t)))
		}
		back := s.without(t, "hanging", s.nodes[:1]) // four can be halved
		began := time.Now()
		const rounds = 30
		var last locker.Token
		for range rounds {
			var waiters []*waiting
			for _, l := range all {
				waiters = append(waiters, wait(t, l, name))
			}
			for len(waiters) > 0 {
				i := first(t, waiters, hang)
				lease := waiters[i].granted(t, 0)
				waiters = slices.Delete(waiters, i, i+1)
				if lease.Token() <= last {
					t.Errorf("token %d after %d", lease.Token(), last)
				}
				last = lease.Token()
				release(t, lease)
			}
		}
		back()
		took := time.Since(began)
		t.Logf("%d rounds of %d contenders took %v", rounds, contenders, took)
		if took > 2*hang {
			t.Errorf("%d rounds of %d contenders took %v", rounds, contenders, took)
		}
	}
}

// nextOfTheSameLocker has the same Locker hold a lock and wait for it, and another that came later.
func (s *redlockService) nextOfTheSameLocker(t conformance.T, _ *conformance.Harness) {
	l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	queue := func(want int) {
		t.Helper()
		eventually(t, soon, func() error {
			if n := s.waiters(t, name); n != want {
				return fmt.Errorf("%d wait, want %d", n, want)
			}
			return nil
		})
	}
	lease := acquire(t, l, name)
	for range 5 {
		next := wait(t, l, name)
		queue(1)
		later := wait(t, other, name)
		queue(2)
		release(t, lease)
		lease = next.granted(t, soon)
		later.pending(t)
		later.cancel()
		later.returned(soon)
		queue(0)
	}
	release(t, lease)
}
