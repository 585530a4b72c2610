package redlockmodel_test

import (
	"math/rand/v2"
	"testing"

	model "github.com/fencedlock/locker/internal/redlockmodel"
)

// walker is a world that is too large for all orders.
type walker interface {
	walk(rng *rand.Rand, n int) (steps int, f *failure)
}

// large worlds have all that may go wrong.
func largeTokens(nodes, attempts int) *tokens {
	return &tokens{nodes: nodes, attempts: attempts, proposals: 3, seconds: 5, losses: 2, snapshots: true, alive: true, expiry: true}
}

func largeExclusion(nodes, attempts int) *exclusion {
	return &exclusion{nodes: nodes, attempts: attempts, ttl: 3, proposals: 2, losses: 2, snapshots: true, alive: true}
}

func TestWalks(t *testing.T) {
	walks := 2_000
	if soak {
		walks = 500_000
	}
	for _, tc := range []struct {
		name  string
		world walker
	}{
		{"tokens, 3 attempts on 3 servers", largeTokens(3, 3)},
		{"tokens, 4 attempts on 5 servers", largeTokens(5, 4)},
		{"exclusion, 3 attempts on 3 servers", largeExclusion(3, 3)},
		{"exclusion, 4 attempts on 5 servers", largeExclusion(5, 4)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			steps, f := tc.world.walk(rand.New(rand.NewPCG(seed, 0)), walks)
			t.Logf("%d steps from seed %d", steps, seed)
			if f != nil {
				t.Error(f)
			}
		})
	}
}

// Walks get far enough in the largest worlds to find what is grossly wrong.
func TestWalksFind(t *testing.T) {
	out := func(rules model.Rules) *tokens { w := largeTokens(5, 4); w.out = rules; return w }
	timedOut := func(rules model.Rules) *exclusion { w := largeExclusion(5, 4); w.out = rules; return w }
	for _, tc := range []struct {
		name  string
		world walker
	}{
		{"acquire doesn't compare with the counter", out(model.Rules{AcquireCompare: true})},
		{"raise doesn't compare with the counter", out(model.Rules{RaiseCompare: true})},
		{"renew sets the key again", out(model.Rules{RenewExists: true})},
		{"acquire takes what somebody has", timedOut(model.Rules{AcquireHeld: true})},
		{"a server that has forgotten grants", timedOut(model.Rules{AcquireForgetful: true})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			steps, f := tc.world.walk(rand.New(rand.NewPCG(seed, 0)), 50_000)
			if f == nil {
				t.Fatalf("nothing is found in %d steps from seed %d", steps, seed)
			}
			t.Logf("in %d steps from seed %d: %v", steps, seed, f)
		})
	}
}
