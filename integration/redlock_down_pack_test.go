//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// downPack is servers that are down, hang, or answer late.
func (s *redlockService) downPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I1", Name: "minority-down-works", Run: s.minorityDown,
			Why: "that is what several servers are for: two of five may be gone, or hang, and nobody notices"},
		{ID: "I2", Name: "majority-down-fails-cleanly", Run: s.majorityDown,
			Why: "too few servers grant nothing, say so in time, and keep nothing of the attempts when the others are back"},
		{ID: "I3", Name: "rollback-reaches-all", Run: s.rollback,
			Why: "an attempt that got a minority must give it back, or nobody gets a majority until a TTL has passed"},
		{ID: "I5", Name: "lease-survives-losing-servers-it-needs-not", Run: s.losingServers,
			Why: "a lease hangs on all servers that have agreed to it, not on the first three that have answered"},
	}
}

// tidied is when a server that is back has nothing of those who have given up: a removal that has failed is tried again after 7.5 s
// at the latest. By itself what they have left would end with the TTL.
const tidied = redlockTTL - time.Second

// without takes some servers away until the function that it returns is called, or the case ends. They come back with their
// memory: a port that nobody listens on, or a server that hangs.
func (s *redlockService) without(t conformance.T, how string, nodes []*redisNode) (back func()) {
	t.Helper()
	stop, start := "pause", "unpause"
	if how == "gone" {
		stop, start = "stop", "start"
	}
	docker(t, ids(nodes), stop)
	over := false
	back = func() {
		if !over {
			over = true
			docker(t, ids(nodes), start)
			must(t, s.wait)
			if how == "gone" {
				s.trust(t, nodes)
			}
		}
	}
	t.Cleanup(back)
	return back
}

// trust has servers that were restarted take part at once: a case that is about something else need not wait for them.
func (s *redlockService) trust(t conformance.T, nodes []*redisNode) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		for _, n := range nodes {
			here, err := n.redlockIdentity(ctx)
			if err == nil {
				err = n.admin.Set(ctx, redlockMemory, fmt.Sprintf("%s 0 %d", here, redlockTTL.Milliseconds()), 0).Err()
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *redlockService) minorityDown(t conformance.T, _ *conformance.Harness) {
	for _, how := range []string{"gone", "hanging"} {
		l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
		before := acquire(t, l, lockName(t), locker.WithTTL(shortTTL))
		back := s.without(t, how, s.nodes[1:3])
		pass(t, 2*shortTTL)
		held(t, before, other)
		lease := acquire(t, l, name, locker.WithTTL(shortTTL))
		next := wait(t, keep(t, s.open(t)), name) // is opened while they are away
		pass(t, 2*shortTTL)
		held(t, lease, other)
		next.pending(t)
		if err := lease.Renew(t.Context()); err != nil {
			t.Errorf("%s: Renew = %v, want nil", how, err)
		}
		release(t, lease)
		second := next.granted(t, soon)
		if second.Token() <= lease.Token() {
			t.Errorf("%s: token %d after %d", how, second.Token(), lease.Token())
		}
		release(t, second)
		release(t, before)
		began := time.Now()
		const rounds = 20
		for range rounds {
			free(t, 0, other, name)
		}
		if took := time.Since(began); took > soon {
			t.Errorf("%s: %d acquisitions and releases took %v: they wait for servers that are away", how, rounds, took)
		}
		back()
		eventually(t, tidied, func() error {
			if left := s.residue(t); left != "" {
				return errors.New("left on the servers: " + left)
			}
			return nil
		})
	}
}

func (s *redlockService) majorityDown(t conformance.T, _ *conformance.Harness) {
	for _, how := range []string{"gone", "hanging"} {
		l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
		free(t, 0, other, name) // and connects
		lease := acquire(t, l, name, locker.WithTTL(shortTTL))
		back := s.without(t, how, s.nodes[:3])
		for range 3 {
			err := refused(t, soon, other, lockName(t))
			if !strings.Contains(err.Error(), "no majority takes part: 3 of 5 servers don't") {
				t.Errorf("%s: TryAcquire = %v, want it to say how many servers took part", how, err)
			}
		}
		lost(t, shortTTL+soon, lease)
		if err := refused(t, soon, other, name); errors.Is(err, locker.ErrHeld) {
			t.Errorf("%s: TryAcquire = %v", how, err)
		}
		back()
		eventually(t, tidied, func() error {
			if left := s.residue(t); left != "" {
				return errors.New("left on the servers: " + left)
			}
			return nil
		})
		free(t, soon, l, name)
	}
}

// block has somebody else hold a lock on some servers.
func (s *redlockService) block(t conformance.T, nodes []*redisNode, name string) (unblock func()) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		for i, n := range nodes {
			if err := n.admin.Set(ctx, redlockKey(name), fmt.Sprintf("somebody%d 0", i), far).Err(); err != nil {
				return err
			}
		}
		return nil
	})
	return func() {
		must(t, func(ctx context.Context) error {
			for _, n := range nodes {
				if err := n.admin.Del(ctx, redlockKey(name)).Err(); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

func (s *redlockService) rollback(t conformance.T, _ *conformance.Harness) {
	l, name := keep(t, s.open(t)), lockName(t)
	for blocked := 3; blocked <= 5; blocked++ {
		unblock := s.block(t, s.nodes[5-blocked:], name)
		if _, err := locker.TryAcquire(t.Context(), l, name); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("with %d servers taken, TryAcquire = %v, want ErrHeld", blocked, err)
		}
		eventually(t, soon, func() error { // an answer that came after the verdict is taken back behind the caller
			if owners := s.holders(t, name); len(owners) != blocked {
				return fmt.Errorf("of %d owners that hold a server each, %d are left with: %v", blocked, len(owners), owners)
			}
			return nil
		})
		unblock()
		free(t, 0, l, name)
	}

	// One that is slow answers after the attempt has failed.
	unblock := s.block(t, s.nodes[2:], name)
	docker(t, ids(s.nodes[:1]), "pause")
	_, err := locker.TryAcquire(t.Context(), l, name, locker.WithTTL(shortTTL))
	docker(t, ids(s.nodes[:1]), "unpause")
	if err == nil {
		t.Errorf("TryAcquire = a lease, want an error")
	}
	unblock()
	eventually(t, soon, func() error {
		if owners := s.holders(t, name); len(owners) > 0 {
			return fmt.Errorf("%v hold a server", owners)
		}
		return nil
	})
	free(t, soon, l, name)
}

func (s *redlockService) losingServers(t conformance.T, _ *conformance.Harness) {
	l, other := keep(t, s.open(t)), keep(t, s.open(t))
	for i := range s.nodes {
		lease := acquire(t, l, lockName(t), locker.WithTTL(shortTTL))
		two := []*redisNode{s.nodes[i], s.nodes[(i+2)%5]}
		back := s.without(t, "hanging", two)
		pass(t, 2*shortTTL)
		held(t, lease, other)
		release(t, lease)
		back()
	}
}
