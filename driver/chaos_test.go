package driver_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// Many callers do everything that callers do, against a service whose network does everything that
// networks do. Nobody is granted a lock that somebody else believes to hold, every wait ends in
// time, and at the end nothing is left.
func TestChaos(t *testing.T) {
	for range 6 {
		seed := chaosSeed.Add(1) // so that -count=n tries other seeds each time
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { chaos(t, seed, 0) })
		})
	}
}

// The same, but one of the two processes closes its locker in the middle, when the seed says so.
func TestChaosOfClose(t *testing.T) {
	for range 10 {
		seed := chaosSeed.Add(1)
		closeAfter := time.Duration(rand.New(rand.NewPCG(seed, 100)).Int64N(int64(time.Minute)))
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { chaos(t, seed, closeAfter) })
		})
	}
}

var chaosSeed atomic.Uint64

func chaos(t *testing.T, seed uint64, closeAfter time.Duration) {
	const callers, names = 20, 3
	lasts := 10 * time.Minute
	if closeAfter > 0 {
		lasts = closeAfter + time.Minute
	}
	s := newService(t, seed)
	s.bad = []float64{0, 0.3, 1, 3}[seed%4]
	f := s.driver()
	l := open(t, f)
	other := s.driver() // another process
	rival := open(t, other)
	began := time.Now()
	var wg sync.WaitGroup
	granted, lost := make([]int, callers), make([]int, callers)
	for n := range callers {
		r := rand.New(rand.NewPCG(seed, uint64(n)+2))
		which := l
		if n%5 == 0 {
			which = rival
		}
		wg.Go(func() {
			for time.Since(began) < lasts {
				g, x := turn(t, s, which, fmt.Sprint(r.IntN(names)), r)
				granted[n] += g
				lost[n] += x
			}
		})
	}
	if closeAfter > 0 {
		f.leaves = true // what isn't removed before Close returns ends with its TTL
		wg.Go(func() {
			time.Sleep(closeAfter)
			_ = closesWithin(t, l, 13*time.Second)
			if residue := driver.Residue(l); s.bad < 1 && residue != "" { // after faults a call may ignore its context for longer
				t.Errorf("Close left %s", residue)
			}
		})
	}
	if seed%3 == 0 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 0))
			for time.Since(began) < lasts {
				time.Sleep(time.Duration(r.Int64N(int64(time.Minute))))
				driver.Suspend(time.Duration(r.Int64N(int64(2 * ttl))))
			}
		})
	}
	wg.Wait()
	s.mu.Lock()
	s.bad = 0
	s.mu.Unlock()
	time.Sleep(time.Minute) // requests under way arrive, and removals are done
	if n := s.residue(); n > 0 {
		t.Errorf("%d acquisitions exist without an owner", n)
	}
	for _, f := range []*fake{f, other} {
		if residue := driver.Residue(f.engine); residue != "" {
			t.Errorf("the engine is left with %s", residue)
		}
	}
	g, x := 0, 0
	for n := range callers {
		g, x = g+granted[n], x+lost[n]
	}
	if g < 100 && closeAfter == 0 {
		t.Errorf("only %d leases were granted", g)
	}
	t.Logf("%d leases, %d of them lost", g, x)
}

// turn is one acquisition of a caller and what it does with it.
func turn(t *testing.T, s *service, l locker.Locker, name string, r *rand.Rand) (granted, lost int) {
	upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
	var opts []locker.Option
	if r.IntN(4) == 0 {
		opts = append(opts, locker.NoWait())
	}
	if r.IntN(4) == 0 {
		opts = append(opts, locker.WithoutRenewal())
	}
	if r.IntN(4) == 0 {
		opts = append(opts, locker.WithMaxHold(1+upTo(2*ttl)))
	}
	if r.IntN(4) == 0 {
		opts = append(opts, locker.WithTTL(ttl/2+upTo(ttl)))
	}
	ctx, cancel := context.WithTimeout(callerContext(t), upTo(2*time.Minute))
	defer cancel()
	if r.IntN(4) == 0 {
		time.AfterFunc(upTo(time.Minute), cancel)
	}
	lease, err := l.Acquire(ctx, name, opts...)
	if err != nil {
		matchesNone(t, "Acquire", err, locker.ErrLost, locker.ErrReleased)
		if deadline, _ := ctx.Deadline(); time.Since(deadline) > 0 {
			t.Errorf("Acquire returned %v after its context was over", time.Since(deadline))
		}
		time.Sleep(upTo(time.Second))
		return 0, 0
	}
	s.holds(lease)
	if r.IntN(2) == 0 {
		time.Sleep(upTo(time.Second))
	} else {
		time.Sleep(upTo(2 * ttl))
	}
	if r.IntN(3) == 0 {
		_ = lease.Renew(ctx)
	}
	if d := lease.Deadline(); lease.Err() == nil && time.Until(d) <= 0 {
		t.Errorf("a lease is held %v after its deadline", time.Since(d))
	}
	if errors.Is(lease.Err(), locker.ErrLost) {
		lost = 1
	}
	if r.IntN(4) > 0 || lease.Err() == nil { // some callers don't release what is lost
		began := time.Now()
		err := lease.Release(ctx)
		if errors.Is(err, locker.ErrLost) != errors.Is(lease.Err(), locker.ErrLost) {
			t.Errorf("Release = %v and Err = %v", err, lease.Err())
		}
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("Release took %v", d)
		}
	}
	return 1, lost
}
