//go:build unix

package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// The campaign strikes clusters while leases are held, and checks what each holder believes when
// another one gets its lock. In the short form each kind of fault comes once; in the long one,
// below LOCKER_SOAK and once for each run of the tests, there are 250 faults.
const longCampaign = 250

var campaignRan sync.Once

// TestEtcdCampaign tests the deadline that proof.go in etcdbackend derives: whatever happens to the
// cluster and to the network, the holder knows that its lease is lost before the next one has the
// lock.
//
// The test also checks itself: alongside each holder there is one that follows the usual rule,
// which is the last acknowledged keepalive and the TTL. In the long form some of these must still
// believe that they hold a lock which another one has.
func TestEtcdCampaign(t *testing.T) {
	itest.NeedServers(t)
	t.Parallel()
	faults := len(etcdFaults)
	if os.Getenv("LOCKER_SOAK") != "" {
		campaignRan.Do(func() { faults = longCampaign })
	}
	pool := clusters(t)
	tally := make(itest.Tally)
	t.Run("faults", func(t *testing.T) {
		for i := range faults {
			fault := etcdFaults[i%len(etcdFaults)]
			t.Run(fmt.Sprintf("%03d-%s", i, fault.name), func(t *testing.T) {
				t.Parallel()
				s := pool.Take(t) // for one fault at a time
				itest.Must(t, s.wait)
				tally.Add(fault.name, s.strike(t, fault))
			})
		}
	})
	t.Logf("\n%v", tally)
	if faults == longCampaign && tally.Sum(func(o itest.Outcome) bool { return o.Usual && o.Early > 0 }) == 0 {
		t.Errorf("no holder by the usual rule was caught, so these faults prove nothing")
	}
}

// strike starts holders of all kinds with one lock each, and one Locker that waits for all of these
// locks. Then it makes the fault, and returns the outcomes of the holders.
func (s *Service) strike(t *testing.T, fault etcdFault) []itest.Outcome {
	scene := s.newScene(t, fault)
	holders := scene.holders(t)
	rival := step.CloseAtEnd(t, s.Open(t))
	results := make(chan result, len(holders))
	var waiting []*trial
	for _, h := range holders {
		w := &trial{struck: h}
		waiting = append(waiting, w)
		go func() { results <- w.wait(t.Context(), rival) }()
	}
	step.Eventually(t, step.Limit, func() error { return s.allQueued(t, holders) })
	step.Pass(t, time.Duration(rand.Int64N(int64(etcdShortTTL/3)))) // a renewal's
	fault.run(t, scene)
	step.Pass(t, etcdShortTTL) // what the fault has set off may come later

	var outcomes []itest.Outcome
	for _, w := range waiting {
		w.free(t)
	}
	for range holders {
		select {
		case r := <-results:
			if r.err != nil {
				t.Errorf("%s: %v", r.struck.label, r.err)
				continue
			}
			if o := r.outcome; o.Early > 0 && !o.Usual {
				t.Errorf("%s: it believed in its lease when another had the lock, and would have for %v", r.struck.label, o.Early)
			}
			if r.outcome.Slow {
				t.Errorf("%s: its Done was still open when another had the lock, though its deadline had come", r.struck.label)
			}
			outcomes = append(outcomes, r.outcome)
		case <-time.After(step.Limit):
			t.Fatalf("nobody gets a lock that is free")
		}
	}
	return outcomes
}

// trial is the wait for one holder's lock.
type trial struct {
	struck *struck

	mu      sync.Mutex
	granted bool
	freed   bool // the holder has released the lock
}

type result struct {
	struck  *struck
	outcome itest.Outcome
	err     error
}

// wait takes the lock, and looks at its former holder at this very moment.
func (w *trial) wait(ctx context.Context, rival locker.Locker) result {
	lease, err := rival.Acquire(ctx, w.struck.name, locker.WithTTL(etcdShortTTL))
	for err != nil && ctx.Err() == nil { // a fault may fail it
		lease, err = rival.Acquire(ctx, w.struck.name, locker.WithTTL(etcdShortTTL))
	}
	now := time.Now()
	over, since := w.struck.Over(now)
	if err != nil {
		return result{struck: w.struck, err: err}
	}
	w.mu.Lock()
	w.granted = true
	freed := w.freed
	w.mu.Unlock()
	_ = lease.Release(ctx)
	o := itest.Outcome{Usual: w.struck.usual, Kept: freed}
	switch {
	case freed:
	case over:
		o.Late = now.Sub(since)
		if own, ok := w.struck.Holder.(*itest.OwnRule); ok {
			o.Slow = own.WasSlow()
		}
	default:
		o.Early = max(since.Sub(now), 1)
	}
	return result{struck: w.struck, outcome: o}
}

// free releases the lock of a holder whose lease has survived the fault.
func (w *trial) free(t conformance.T) {
	w.mu.Lock()
	granted := w.granted
	over, _ := w.struck.Over(time.Now())
	w.freed = !granted && !over
	w.mu.Unlock()
	if granted {
		return
	}
	if err := w.struck.Release(t.Context()); err != nil && !errors.Is(err, locker.ErrLost) {
		t.Logf("%s: release: %v", w.struck.label, err)
	}
}

// allQueued is nil when somebody waits for each lock that is still held.
func (s *Service) allQueued(t conformance.T, holders []*struck) error {
	for _, h := range holders {
		if over, _ := h.Over(time.Now()); over { // on a machine that is too busy for such a TTL
			continue
		}
		if n := s.Waiters(t, h.name); n != 1 {
			return fmt.Errorf("%d wait for the lock of %s, want 1", n, h.label)
		}
	}
	return nil
}
