//go:build unix

package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	redistest "github.com/fencedlock/locker/integration/redis"
)

// downPack tests servers that are down, don't answer, or answer late.
func (s *Service) downPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I1", Name: "minority-down-works", Run: s.minorityDown,
			Why: "five servers exist to survive two: when two servers are down or don't answer, " +
				"callers must not notice"},
		{ID: "I2", Name: "majority-down-fails-cleanly", Run: s.majorityDown,
			Why: "with too few servers nothing may be granted, the error must come in time, and " +
				"nothing of the attempts may remain when the other servers are back"},
		{ID: "I3", Name: "rollback-reaches-all", Run: s.rollback,
			Why: "an attempt that won a minority must release it, or nobody can win a majority " +
				"until a TTL has passed"},
		{ID: "I5", Name: "lease-survives-losing-servers-it-needs-not", Run: s.losingServers,
			Why: "a lease depends on all servers that have granted it, and not only on the " +
				"first three that have answered"},
	}
}

// tidied is the time after which a server that is back has no keys of callers that have given up. A
// removal that has failed is tried again after 7.5 s at the latest. Without a removal these keys
// would end with the TTL.
const tidied = LongestTTL - time.Second

// without takes some servers away until the function that it returns is called, or the case ends.
// They come back with their memory: a port that nobody listens on, or a server that hangs.
func (s *Service) without(t conformance.T, how string, nodes []*redistest.Node) (back func()) {
	t.Helper()
	stop, start := "pause", "unpause"
	if how == "gone" {
		stop, start = "stop", "start"
	}
	itest.Docker(t, ids(nodes), stop)
	over := false
	back = func() {
		if !over {
			over = true
			itest.Docker(t, ids(nodes), start)
			itest.Must(t, s.wait)
			if how == "gone" {
				s.trust(t, nodes)
			}
		}
	}
	t.Cleanup(back)
	return back
}

// trust has servers that were restarted take part at once: a case that is about something else need
// not wait for them.
func (s *Service) trust(t conformance.T, nodes []*redistest.Node) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		for _, n := range nodes {
			here, err := redlockIdentity(ctx, n)
			if err == nil {
				err = n.Admin.Set(ctx, redlockMemory, fmt.Sprintf("%s 0 %d", here, LongestTTL.Milliseconds()), 0).Err()
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Service) minorityDown(t conformance.T, _ *conformance.Harness) {
	for _, how := range []string{"gone", "hanging"} {
		l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
		before := step.Acquire(t, l, step.LockName(t), locker.WithTTL(itest.ShortTTL))
		back := s.without(t, how, s.Nodes[1:3])
		step.Pass(t, 2*itest.ShortTTL)
		step.WantLive(t, before, other)
		lease := step.Acquire(t, l, name, locker.WithTTL(itest.ShortTTL))
		next := step.StartAcquire(t, step.CloseAtEnd(t, s.Open(t)), name) // is opened while they are away
		step.Pass(t, 2*itest.ShortTTL)
		step.WantLive(t, lease, other)
		next.WantPending(t)
		if err := lease.Renew(t.Context()); err != nil {
			t.Errorf("%s: Renew = %v, want nil", how, err)
		}
		step.Release(t, lease)
		second := next.Granted(t, itest.ShortWait)
		if second.Token() <= lease.Token() {
			t.Errorf("%s: token %d after %d", how, second.Token(), lease.Token())
		}
		step.Release(t, second)
		step.Release(t, before)
		began := time.Now()
		const rounds = 20
		for range rounds {
			step.FreeWithin(t, 0, other, name)
		}
		if took := time.Since(began); took > itest.ShortWait {
			t.Errorf("%s: %d acquisitions and releases took %v: they wait for servers that are away", how, rounds, took)
		}
		back()
		step.Eventually(t, tidied, func() error {
			if left := s.residue(t); left != "" {
				return errors.New("left on the servers: " + left)
			}
			return nil
		})
	}
}

func (s *Service) majorityDown(t conformance.T, _ *conformance.Harness) {
	for _, how := range []string{"gone", "hanging"} {
		l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
		step.FreeWithin(t, 0, other, name) // and connects
		lease := step.Acquire(t, l, name, locker.WithTTL(itest.ShortTTL))
		back := s.without(t, how, s.Nodes[:3])
		for range 3 {
			err := step.WantFailure(t, itest.ShortWait, other, step.LockName(t))
			if !strings.Contains(err.Error(), "no majority takes part: 3 of 5 servers don't") {
				t.Errorf("%s: TryAcquire = %v, want it to say how many servers took part", how, err)
			}
		}
		step.LostWithin(t, itest.ShortTTL+itest.ShortWait, lease)
		if err := step.WantFailure(t, itest.ShortWait, other, name); errors.Is(err, locker.ErrHeld) {
			t.Errorf("%s: TryAcquire = %v", how, err)
		}
		back()
		step.Eventually(t, tidied, func() error {
			if left := s.residue(t); left != "" {
				return errors.New("left on the servers: " + left)
			}
			return nil
		})
		step.FreeWithin(t, itest.ShortWait, l, name)
	}
}

// block has somebody else hold a lock on some servers.
func (s *Service) block(t conformance.T, nodes []*redistest.Node, name string) (unblock func()) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		for i, n := range nodes {
			if err := n.Admin.Set(ctx, redlockKey(name), fmt.Sprintf("somebody%d 0", i), itest.LongTTL).Err(); err != nil {
				return err
			}
		}
		return nil
	})
	return func() {
		itest.Must(t, func(ctx context.Context) error {
			for _, n := range nodes {
				if err := n.Admin.Del(ctx, redlockKey(name)).Err(); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

func (s *Service) rollback(t conformance.T, _ *conformance.Harness) {
	l, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	for blocked := 3; blocked <= 5; blocked++ {
		unblock := s.block(t, s.Nodes[5-blocked:], name)
		if _, err := locker.TryAcquire(t.Context(), l, name); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("with %d servers taken, TryAcquire = %v, want ErrHeld", blocked, err)
		}
		step.Eventually(t, itest.ShortWait, func() error { // a grant that arrived after the decision is released in the background
			if owners := s.holders(t, name); len(owners) != blocked {
				return fmt.Errorf("of %d owners that hold a server each, %d are left with: %v", blocked, len(owners), owners)
			}
			return nil
		})
		unblock()
		step.FreeWithin(t, 0, l, name)
	}

	// One that is slow answers after the attempt has failed.
	unblock := s.block(t, s.Nodes[2:], name)
	itest.Docker(t, ids(s.Nodes[:1]), "pause")
	_, err := locker.TryAcquire(t.Context(), l, name, locker.WithTTL(itest.ShortTTL))
	itest.Docker(t, ids(s.Nodes[:1]), "unpause")
	if err == nil {
		t.Errorf("TryAcquire = a lease, want an error")
	}
	unblock()
	step.Eventually(t, itest.ShortWait, func() error {
		if owners := s.holders(t, name); len(owners) > 0 {
			return fmt.Errorf("%v hold a server", owners)
		}
		return nil
	})
	step.FreeWithin(t, itest.ShortWait, l, name)
}

func (s *Service) losingServers(t conformance.T, _ *conformance.Harness) {
	l, other := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t))
	for i := range s.Nodes {
		lease := step.Acquire(t, l, step.LockName(t), locker.WithTTL(itest.ShortTTL))
		two := []*redistest.Node{s.Nodes[i], s.Nodes[(i+2)%5]}
		back := s.without(t, "hanging", two)
		step.Pass(t, 2*itest.ShortTTL)
		step.WantLive(t, lease, other)
		step.Release(t, lease)
		back()
	}
}
