//go:build unix

package zk

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
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/zkbackend"
)

// The campaign strikes ensembles while leases are held, and checks what each holder believes when
// another one gets its lock. In the short form each kind of fault comes once; in the long one,
// below LOCKER_SOAK and once for each run of the tests, there are 200 faults.
const (
	zkLongCampaign = 200
	zkCampaignTTL  = 4 * time.Second
)

// zkTicks are the ticks of the ensembles. There is one ensemble for each, under one fault at a time.
// Everything about them is as it is by default: so the tick is found out as well.
var zkTicks = []time.Duration{500 * time.Millisecond, 2 * time.Second}

var zkCampaignRan sync.Once

// TestZkCampaign tests the deadline that proof.go in zkbackend derives: whatever happens to the
// ensemble and to the network, the holder knows that its lease is lost before the next one has the
// lock.
//
// The test also checks itself: alongside the holders there is one that follows the usual rule,
// which is the last acknowledged write and the session's timeout. In the long form some of these
// must still believe that they hold a lock which another one has.
func TestZkCampaign(t *testing.T) {
	itest.NeedServers(t)
	t.Parallel()
	faults := len(zkFaults)
	if os.Getenv("LOCKER_SOAK") != "" {
		zkCampaignRan.Do(func() { faults = zkLongCampaign })
	}
	results := make(itest.Tally)
	t.Run("ticks", func(t *testing.T) {
		for n, tick := range zkTicks {
			t.Run(tick.String(), func(t *testing.T) {
				t.Parallel()
				s := itest.Started(t, "zookeeper", func(ctx context.Context, image string) (*Service, error) {
					return startZkEnsemble(ctx, image, tick)
				})
				for i := n; i < faults; i += len(zkTicks) {
					fault := zkFaults[i/len(zkTicks)%len(zkFaults)]
					if faults == len(zkFaults) {
						fault = zkFaults[i]
					}
					t.Run(fmt.Sprintf("%03d-%s", i, fault.name), func(t *testing.T) {
						itest.Must(t, s.wait)
						results.Add(fmt.Sprint(fault.name, ", ", tick), s.strike(t, fault))
					})
				}
			})
		}
	})
	t.Logf("\n%v", results)
	if faults == zkLongCampaign && results.Sum(func(o itest.Outcome) bool { return o.Usual && o.Early > 0 }) == 0 {
		t.Errorf("no holder by the usual rule was caught, so these faults prove nothing")
	}
}

// strike starts holders of all kinds with one lock each, and one Locker that waits for all of these
// locks. Then it makes the fault, and returns the outcomes of the holders.
func (s *Service) strike(t *testing.T, fault zkFault) []itest.Outcome {
	scene := s.newZkScene(t, fault)
	holders := scene.holders(t)
	rival := step.CloseAtEnd(t, s.Through(t, s.counter.dial, scene.otherAddrs(), zkbackend.WithDefaultTTL(zkCampaignTTL)))
	scene.slack = rival.Guarantees().Expiry.Slack
	results := make(chan zkResult, len(holders))
	trials := make([]*zkTrial, len(holders))
	for i, h := range holders {
		trials[i] = &zkTrial{holder: h}
		go func() { results <- trials[i].wait(t.Context(), rival) }()
	}
	step.Eventually(t, step.Limit, func() error {
		for _, h := range holders {
			if n := s.Waiters(t, h.name); n != 1 {
				return fmt.Errorf("%d wait for the lock of %s, want 1", n, h.label)
			}
		}
		return nil
	})
	step.Pass(t, upTo(zkCampaignTTL/3)) // a renewal's
	if usual, ok := holders[len(holders)-1].Holder.(*zkUsualRule); ok && rand.IntN(2) == 0 {
		usual.hasWritten(t) // the worst moment for it: only its server has heard of its sign of life
	}
	fault.run(t, scene)
	step.Pass(t, zkCampaignTTL) // what the fault has set off may come later

	for _, trial := range trials {
		trial.free(t)
	}
	var outcomes []itest.Outcome
	for range holders {
		select {
		case r := <-results:
			if r.err != nil {
				t.Errorf("%s: %v", r.holder.label, r.err)
				continue
			}
			if r.Early > 0 && !r.Usual {
				t.Errorf("%s: it believed in its lease when another had the lock, and would have for %v", r.holder.label, r.Early)
			}
			outcomes = append(outcomes, r.Outcome)
		case <-time.After(step.Limit):
			t.Fatalf("nobody gets a lock that is free")
		}
	}
	return outcomes
}

// zkHolder is a holder of a lock of its own.
type zkHolder struct {
	label, name string
	usual       bool // it goes by the usual rule
	itest.Holder
}

// zkTrial is the wait for one holder's lock.
type zkTrial struct {
	holder *zkHolder

	mu      sync.Mutex
	granted bool
	freed   bool // the holder has released the lock
}

type zkResult struct {
	itest.Outcome
	holder *zkHolder
	err    error
}

// wait takes the lock, and looks at its former holder at this very moment.
func (w *zkTrial) wait(ctx context.Context, rival locker.Locker) zkResult {
	var lease locker.Lease
	var err error
	for range 5 { // under a fault an acquisition may fail
		if lease, err = rival.Acquire(ctx, w.holder.name); err == nil || ctx.Err() != nil {
			break
		}
	}
	now := time.Now()
	over, since := w.holder.Over(now)
	if err != nil {
		return zkResult{holder: w.holder, err: err}
	}
	w.mu.Lock()
	w.granted = true
	freed := w.freed
	w.mu.Unlock()
	_ = lease.Release(ctx)
	o := itest.Outcome{Usual: w.holder.usual, Kept: freed}
	switch {
	case freed:
	case over:
		o.Late = now.Sub(since)
	default:
		o.Early = max(since.Sub(now), 1)
	}
	return zkResult{o, w.holder, nil}
}

// free releases the lock of a holder whose lease has survived the fault.
func (w *zkTrial) free(t *testing.T) {
	w.mu.Lock()
	over, _ := w.holder.Over(time.Now())
	w.freed = !w.granted && !over
	granted := w.granted
	w.mu.Unlock()
	if granted {
		return
	}
	if err := w.holder.Release(t.Context()); err != nil && !errors.Is(err, locker.ErrLost) {
		t.Logf("%s: release: %v", w.holder.label, err)
	}
}
