//go:build unix

package integration

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
	"github.com/fencedlock/locker/zkbackend"
)

// The campaign strikes ensembles while leases are held, and looks at who believes what when another gets the lock. In the short form
// each kind of fault comes once; in the long one, below LOCKER_SOAK and once for each run of the tests, there are 200 faults.
const (
	zkLongCampaign = 200
	zkCampaignTTL  = 4 * time.Second
)

// zkTicks are those of the ensembles, of which there is one for each, under one fault at a time. Everything about them is as it is by
// default: so the tick is found out as well.
var zkTicks = []time.Duration{500 * time.Millisecond, 2 * time.Second}

var zkCampaignRan sync.Once

// TestZkCampaign is the test of the deadline, by proof.go in zkbackend: whatever happens to the ensemble and to the way there, the
// holder knows that its lease is lost before the next one has the lock.
//
// And it is a test of itself: beside the holders there is one that goes by the usual rule, the last acknowledged write and the session's
// timeout. The long form must catch some of these in the belief that they still hold a lock which another has.
func TestZkCampaign(t *testing.T) {
	needServers(t)
	t.Parallel()
	faults := len(zkFaults)
	if os.Getenv("LOCKER_SOAK") != "" {
		zkCampaignRan.Do(func() { faults = zkLongCampaign })
	}
	results := make(tally)
	t.Run("ticks", func(t *testing.T) {
		for n, tick := range zkTicks {
			t.Run(tick.String(), func(t *testing.T) {
				t.Parallel()
				s := lazily("zookeeper", func(ctx context.Context, image string) (*zkService, error) {
					return startZkEnsemble(ctx, image, tick)
				})(t)
				for i := n; i < faults; i += len(zkTicks) {
					fault := zkFaults[i/len(zkTicks)%len(zkFaults)]
					if faults == len(zkFaults) {
						fault = zkFaults[i]
					}
					t.Run(fmt.Sprintf("%03d-%s", i, fault.name), func(t *testing.T) {
						must(t, s.wait)
						results.add(fmt.Sprint(fault.name, ", ", tick), s.strike(t, fault))
					})
				}
			})
		}
	})
	t.Logf("\n%v", results)
	if faults == zkLongCampaign && results.sum(func(o outcome) bool { return o.usual && o.early > 0 }) == 0 {
		t.Errorf("no holder by the usual rule was caught, so these faults prove nothing")
	}
}

// strike has holders of all sorts hold a lock each, and one Locker wait for all of them; makes the fault; and returns what became of
// the holders.
func (s *zkService) strike(t *testing.T, fault zkFault) []outcome {
	scene := s.newZkScene(t, fault)
	holders := scene.holders(t)
	rival := keep(t, s.through(t, s.counter.dial, scene.otherAddrs(), zkbackend.WithDefaultTTL(zkCampaignTTL)))
	results := make(chan zkResult, len(holders))
	trials := make([]*zkTrial, len(holders))
	for i, h := range holders {
		trials[i] = &zkTrial{holder: h}
		go func() { results <- trials[i].wait(t.Context(), rival) }()
	}
	eventually(t, hang, func() error {
		for _, h := range holders {
			if n := s.waiters(t, h.name); n != 1 {
				return fmt.Errorf("%d wait for the lock of %s, want 1", n, h.label)
			}
		}
		return nil
	})
	pass(t, upTo(zkCampaignTTL/3)) // a renewal's
	if usual, ok := holders[len(holders)-1].holding.(*zkUsualRule); ok && rand.IntN(2) == 0 {
		usual.hasWritten(t) // the worst moment for it: only its server has heard of its sign of life
	}
	fault.run(t, scene)
	pass(t, zkCampaignTTL) // what the fault has set off may come later

	for _, trial := range trials {
		trial.free(t)
	}
	var outcomes []outcome
	for range holders {
		select {
		case r := <-results:
			if r.err != nil {
				t.Errorf("%s: %v", r.holder.label, r.err)
				continue
			}
			if r.early > 0 && !r.usual {
				t.Errorf("%s: it believed in its lease when another had the lock, and would have for %v", r.holder.label, r.early)
			}
			outcomes = append(outcomes, r.outcome)
		case <-time.After(hang):
			t.Fatalf("nobody gets a lock that is free")
		}
	}
	return outcomes
}

// zkHolder is a holder of a lock of its own.
type zkHolder struct {
	label, name string
	usual       bool // it goes by the usual rule
	holding
}

// zkTrial is the wait for one holder's lock.
type zkTrial struct {
	holder *zkHolder

	mu      sync.Mutex
	granted bool
	freed   bool // the holder was told to let go
}

type zkResult struct {
	outcome
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
	over, since := w.holder.over(now)
	if err != nil {
		return zkResult{holder: w.holder, err: err}
	}
	w.mu.Lock()
	w.granted = true
	freed := w.freed
	w.mu.Unlock()
	_ = lease.Release(ctx)
	o := outcome{usual: w.holder.usual, kept: freed}
	switch {
	case freed:
	case over:
		o.late = now.Sub(since)
	default:
		o.early = max(since.Sub(now), 1)
	}
	return zkResult{o, w.holder, nil}
}

// free has a holder let go whose lease has outlived the fault.
func (w *zkTrial) free(t *testing.T) {
	w.mu.Lock()
	over, _ := w.holder.over(time.Now())
	w.freed = !w.granted && !over
	granted := w.granted
	w.mu.Unlock()
	if granted {
		return
	}
	if err := w.holder.letGo(t.Context()); err != nil && !errors.Is(err, locker.ErrLost) {
		t.Logf("%s: letting go: %v", w.holder.label, err)
	}
}
