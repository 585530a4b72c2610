package membackend_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// TestChaos lets several Lockers compete for one lock while their networks and the service fail at
// random, and checks every lease against what a lock promises: while its Err is nil nobody else's
// is, and its token is larger than all earlier ones. In the end nothing is left.
func TestChaos(t *testing.T) {
	for seed := range uint64(4) {
		inChaos(t, seed)
	}
}

func inChaos(t *testing.T, seed uint64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		ctx, stop := context.WithTimeout(t.Context(), 30*ttl)
		defer stop()
		var (
			mu     sync.Mutex
			holder locker.Lease
			last   locker.Token
			leases int
			wg     sync.WaitGroup
		)
		enter := func(l locker.Lease) {
			mu.Lock()
			defer mu.Unlock()
			if l.Err() != nil {
				return
			}
			if holder != nil && holder.Err() == nil {
				t.Errorf("seed %d: leases %d and %d are held at the same time", seed, holder.Token(), l.Token())
			}
			if l.Token() <= last {
				t.Errorf("seed %d: token %d after %d", seed, l.Token(), last)
			}
			holder, last = l, l.Token()
			leases++
		}
		parties := make([]party, 4)
		for i := range parties {
			parties[i] = newParty(t, s)
			for j := range 2 {
				rng := rand.New(rand.NewPCG(seed, uint64(2*i+j)))
				wg.Go(func() { contend(ctx, parties[i], rng, enter) })
			}
		}
		rng := rand.New(rand.NewPCG(seed, 100))
		for ctx.Err() == nil {
			misfortune(s, parties[rng.IntN(len(parties))].Link, rng)
			time.Sleep(time.Duration(rng.Int64N(int64(ttl / 2))))
		}
		s.Resume()
		for _, p := range parties {
			p.Heal()
		}
		wg.Wait()
		time.Sleep(ttl) // for removals that are tried again
		wantResidue(t, s, "")
		for _, p := range parties {
			if err := p.Close(); err != nil {
				t.Errorf("seed %d: Close = %v", seed, err)
			}
		}
		if leases < 20 {
			t.Errorf("seed %d: %d leases, want 20 at least, or the run proves nothing", seed, leases)
		}
	})
}

// contend acquires the lock again and again, keeps it for a while, and releases it or doesn't.
func contend(ctx context.Context, l locker.Locker, rng *rand.Rand, enter func(locker.Lease)) {
	for ctx.Err() == nil {
		patience, cancel := context.WithTimeout(ctx, time.Duration(rng.Int64N(int64(2*ttl))))
		var opts []locker.Option
		if rng.IntN(4) == 0 {
			opts = append(opts, locker.NoWait())
		}
		lease, err := l.Acquire(patience, "name", opts...)
		cancel()
		if err != nil {
			time.Sleep(time.Duration(rng.Int64N(int64(time.Second))))
			continue
		}
		enter(lease)
		select {
		case <-lease.Done():
		case <-time.After(time.Duration(rng.Int64N(int64(ttl / 2)))):
		}
		_ = lease.Release(ctx)
	}
}

// misfortune starts or ends a fault. Expire is not among them: it removes a lock by force, and the
// holder may not be notified at once.
func misfortune(s *membackend.Server, link *membackend.Link, rng *rand.Rand) {
	switch rng.IntN(13) {
	case 0:
		link.Cut()
	case 1, 2, 3:
		link.Heal()
	case 4:
		link.Delay(time.Duration(rng.Int64N(int64(ttl/8))), time.Duration(rng.Int64N(int64(ttl/8))))
	case 5, 6:
		link.Delay(0, 0)
	case 7:
		link.Drop(rng.IntN(3))
	case 8:
		link.Sever()
	case 9:
		s.Pause()
	case 10, 11:
		s.Resume()
	case 12:
		s.Restart()
	}
}
