//go:build unix

package redlock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	redistest "github.com/fencedlock/locker/integration/redis"
)

// These cases test exclusion and tokens when servers lose their data, or when their clocks jump. A
// lease is held on three of the five servers, so that one more vote decides.

// forgetPack has a few tries of each kind in an ordinary run, and a hundred below LOCKER_SOAK.
func (s *Service) forgetPack() []conformance.Case {
	list := []conformance.Case{
		{ID: "I20", Name: "without-memory-there-are-two-holders", Run: s.doubleHolds,
			Why: "if a server that has forgotten a lease takes part at once, another caller " +
				"gets the lock; if this can't be shown, the cases that follow prove nothing"},
		{ID: "I25", Name: "clock-that-jumps-costs-no-order", Run: s.clockJumps,
			Why: "a server whose clock jumps ahead releases a lock early, and a second holder " +
				"may get it; the second token must be larger, and the first holder must learn " +
				"of its loss"},
	}
	for i, kind := range []string{"flushed", "restarted empty", "restarted from an old snapshot", "all restarted from old snapshots"} {
		list = append(list, conformance.Case{
			ID: fmt.Sprint("I", 21+i), Name: strings.ReplaceAll(kind, " ", "-") + "-grants-nothing-that-is-held",
			Run: func(t conformance.T, _ *conformance.Harness) { s.forgetful(t, kind) },
			Why: "a server that has lost data would grant a lock that somebody still holds",
		})
	}
	slices.SortFunc(list, func(a, b conformance.Case) int { return strings.Compare(a.ID, b.ID) })
	return list
}

func forgetTries() int {
	if os.Getenv("LOCKER_SOAK") != "" {
		return 100
	}
	return 2
}

// standoff is a lease on the first three servers, with a part of their memory of its own.
type standoff struct {
	url   string
	rival locker.Locker
	lease locker.Lease
}

const (
	standoffLongest = 8 * time.Second
	standoffTTL     = 5 * time.Second
)

// set makes a standoff. prepare is called when the servers have their memory and nobody has the
// lock.
func (s *Service) standoff(t conformance.T, name string, prepare func()) standoff {
	t.Helper()
	u := s.with("prefix", step.LockName(t)+":", "ttl", standoffTTL.String(), "max_ttl", standoffLongest.String())
	itest.Must(t, func(ctx context.Context) error { return s.waive(ctx, u) })
	holder, rival := step.CloseAtEnd(t, itest.OpenURL(t, u)), step.CloseAtEnd(t, itest.OpenURL(t, u))
	step.FreeWithin(t, 0, rival, name) // and connects
	prepare()
	key := prefixOf(u) + "{" + name + "}"
	two := s.Nodes[3:]
	itest.Must(t, func(ctx context.Context) error {
		for _, n := range two {
			if err := n.Admin.Set(ctx, key, "somebody 0", itest.LongTTL).Err(); err != nil {
				return err
			}
		}
		return nil
	})
	lease := step.Acquire(t, holder, name, locker.WithoutRenewal())
	itest.Must(t, func(ctx context.Context) error {
		for _, n := range two {
			if err := n.Admin.Del(ctx, key).Err(); err != nil {
				return err
			}
		}
		return nil
	})
	return standoff{u, rival, lease}
}

func prefixOf(rawURL string) string {
	_, rest, _ := strings.Cut(rawURL, "prefix=")
	prefix, _, _ := strings.Cut(rest, "&")
	return strings.ReplaceAll(prefix, "%3A", ":")
}

// ask has the rival ask until it has the lock or the time is up. It reports whether the rival got
// the lock while the lease was held.
func (c standoff) ask(t conformance.T, name string, d time.Duration) (both bool) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(t.Context(), itest.ShortWait)
		second, err := locker.TryAcquire(ctx, c.rival, name)
		cancel()
		if err == nil {
			both = c.lease.Err() == nil
			if second.Token() <= c.lease.Token() {
				t.Errorf("token %d after %d", second.Token(), c.lease.Token())
			}
			step.Release(t, second)
			return both
		}
		step.Pass(t, 10*time.Millisecond)
	}
	return false
}

func (s *Service) forgetful(t conformance.T, kind string) {
	defer s.trust(t, s.Nodes)
	one := s.Nodes[2:3]
	name := "a"
	for range forgetTries() {
		var c standoff
		switch kind {
		case "flushed":
			c = s.standoff(t, name, func() {})
			itest.Must(t, func(ctx context.Context) error { return one[0].Admin.FlushAll(ctx).Err() })
		case "restarted empty":
			itest.Must(t, func(ctx context.Context) error {
				return errors.Join(one[0].Admin.FlushAll(ctx).Err(), one[0].Admin.Save(ctx).Err())
			})
			s.trust(t, one)
			c = s.standoff(t, name, func() {})
			s.restartSome(t, one)
		case "restarted from an old snapshot":
			c = s.standoff(t, name, func() {
				itest.Must(t, func(ctx context.Context) error { return one[0].Admin.Save(ctx).Err() })
			})
			s.restartSome(t, one)
		default:
			c = s.standoff(t, name, func() {
				itest.Must(t, func(ctx context.Context) error {
					return s.each(ctx, func(ctx context.Context, n *redistest.Node) error { return n.Admin.Save(ctx).Err() })
				})
			})
			s.restartSome(t, s.Nodes)
		}
		c.oneHolder(t, name)
	}
}

// oneHolder has the rival ask until it has got the lock, which must be after the lease. It reports
// whether the lease was held when the rival began to ask: otherwise nothing is proved.
func (c standoff) oneHolder(t conformance.T, name string) (proved bool) {
	t.Helper()
	err := c.lease.Err()
	if err != nil {
		t.Logf("the lease was over when the server was back, so this try proves little: %v", err)
	}
	if c.ask(t, name, standoffTTL+standoffLongest+itest.ShortWait) {
		t.Fatalf("two holders: somebody else got the lock while the lease was held")
	}
	return err == nil
}

// doubleHolds makes a server believe that it remembers all.
func (s *Service) doubleHolds(t conformance.T, _ *conformance.Harness) {
	defer s.trust(t, s.Nodes)
	name, one := "a", s.Nodes[2]
	both, tries := 0, forgetTries()
	for range tries {
		c := s.standoff(t, name, func() {})
		itest.Must(t, func(ctx context.Context) error {
			here, err := redlockIdentity(ctx, one)
			if err != nil {
				return err
			}
			memory := fmt.Sprintf("%s 0 %d", here, standoffLongest.Milliseconds())
			return errors.Join(one.Admin.FlushAll(ctx).Err(), one.Admin.Set(ctx, prefixOf(c.url)+"memory", memory, 0).Err())
		})
		if c.ask(t, name, standoffTTL/2) {
			both++
		}
	}
	t.Logf("without its memory, one server of five lets a second holder in in %d of %d tries", both, tries)
	if both < tries/2 {
		t.Errorf("a second holder got in in %d of %d tries only: the other cases of this kind prove nothing", both, tries)
	}
}

// clockJumps has what lives on one server expire at once, as a clock that jumps ahead does,
// counters included.
func (s *Service) clockJumps(t conformance.T, _ *conformance.Harness) {
	name, one := "a", s.Nodes[2]
	both := 0
	for range forgetTries() {
		c := s.standoff(t, name, func() {})
		itest.Must(t, func(ctx context.Context) error {
			keys, err := one.Admin.Keys(ctx, prefixOf(c.url)+"{*").Result()
			for _, key := range keys {
				err = errors.Join(err, one.Admin.PExpireAt(ctx, key, time.Now().Add(-time.Hour)).Err())
			}
			return err
		})
		if c.ask(t, name, standoffTTL/2) { // checks the order
			both++
			if err := c.lease.Renew(t.Context()); !errors.Is(err, locker.ErrLost) {
				t.Errorf("Renew after a larger token was granted = %v, want ErrLost", err)
			}
		}
	}
	t.Logf("a clock that jumped has let a second holder in in %d of %d tries", both, forgetTries())
}
