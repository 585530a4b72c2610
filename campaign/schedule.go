package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// schedule is what chance decides in a round. All libraries of a backend have the same schedule in
// the same round.
type schedule struct {
	Warm   [2][]time.Duration // thinks of each contender's updates before the fault
	Think  time.Duration      // from the victim's read to the fault
	Waits  bool               // the rival waits for the lock when the fault begins
	Late   time.Duration      // otherwise: how much later the rival comes
	Rival  []time.Duration    // thinks of the rival's updates after the fault
	Victim time.Duration      // think of the victim's update after its section
	Seed   uint64             // of what the updates do
	Leader time.Duration      // from the silence of a holder to the failure of the leader
}

const (
	warmUpdates  = 6 // of each contender
	rivalUpdates = 6
	longestThink = 2 * time.Millisecond
	longestDelay = 300 * time.Millisecond // of a rival that comes after the fault
)

// newSchedule returns the schedule of a round, which counts from 0. It depends on nothing but its
// arguments.
func newSchedule(seed uint64, backend, fault string, round int, ttl time.Duration) schedule {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%s/%d", backend, fault, round)
	r := rand.New(rand.NewPCG(seed, h.Sum64()))
	upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
	thinks := func(n int) (all []time.Duration) {
		for range n {
			all = append(all, upTo(longestThink))
		}
		return all
	}
	return schedule{
		Warm: [2][]time.Duration{thinks(warmUpdates), thinks(warmUpdates)},
		// Libraries that don't renew must still have the lock then. In half of the TTL others renew
		// at least once, so the fault comes at any moment between two renewals.
		Think:  upTo(ttl / 2),
		Waits:  r.IntN(2) == 0,
		Late:   upTo(longestDelay),
		Rival:  thinks(rivalUpdates),
		Victim: upTo(longestThink),
		Seed:   r.Uint64(),
		// The service has heard the last renewal up to a third of the TTL before the silence. So the
		// lease ends in the last third of a TTL from the silence, or later.
		Leader: ttl/2 + upTo(ttl/4),
	}
}
