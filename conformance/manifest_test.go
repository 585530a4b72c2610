package conformance_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// claiming makes Lockers change what they claim.
func claiming(change func(*locker.Guarantees)) decorator {
	return func() func(locker.Locker) locker.Locker {
		return func(l locker.Locker) locker.Locker { return claimant{forwards{l}, change} }
	}
}

type claimant struct {
	forwards
	change func(*locker.Guarantees)
}

func (c claimant) Guarantees() locker.Guarantees {
	g := c.Locker.Guarantees()
	c.change(&g)
	return g
}

// claim is a change to what a backend promises, and the verdict of a case that notices it.
type claim struct {
	what    string
	harness func(decorator) conformance.Harness
	change  func(*locker.Guarantees)
	id      string
	want    conformance.Verdict
}

func claims() []claim {
	toy := func(d decorator) conformance.Harness { return toyHarness(flaws{}, d) }
	often := func(d decorator) conformance.Harness { return toyHarness(flaws{pollsOften: true}, d) }
	twice := func(d decorator) conformance.Harness { return toyHarness(flaws{asksFirst: true}, d) }
	mem := memHarness
	return []claim{
		{"nothing", mem, func(*locker.Guarantees) {}, "M1", conformance.Passed},
		{"no scope", mem, func(g *locker.Guarantees) { g.Scope = 0 }, "M1", conformance.Failed},
		{"a scope without name", mem, func(g *locker.Guarantees) { g.Scope = 9 }, "M1", conformance.Failed},
		{"tokens over a restart, and none that fence", toy, func(g *locker.Guarantees) {
			g.Restart, g.Fencing = locker.RestartTokens, locker.FencingNone
		}, "M1", conformance.Failed},
		{"durable tokens by the clock", mem, func(g *locker.Guarantees) { g.Fencing = locker.FencingDurable }, "M1", conformance.Failed},
		{"a TTL without clocks", mem, func(g *locker.Guarantees) { g.Clocks = locker.ClocksNone }, "M1", conformance.Failed},
		{"a minority of one node", mem, func(g *locker.Guarantees) { g.Tolerance = locker.ToleranceMinority }, "M1", conformance.Failed},
		{"a failover of one machine", toy, func(g *locker.Guarantees) { g.Exclusion = locker.ExclusionKernel }, "M1", conformance.Failed},
		{"a network without round trips", mem, func(g *locker.Guarantees) { g.Scope = locker.ScopeNetwork }, "M1", conformance.Failed},
		{"too many round trips", toy, func(g *locker.Guarantees) { g.RoundTrips = 5 }, "M3", conformance.Failed},
		{"too few round trips", twice, func(*locker.Guarantees) {}, "M3", conformance.Failed},
		{"no round trips", mem, func(*locker.Guarantees) {}, "M3", conformance.Skipped},
		{"no expiry", mem, func(g *locker.Guarantees) { g.Expiry.By = 0 }, "M1", conformance.Failed},
		{"too little: revocation", mem, func(g *locker.Guarantees) { g.Revocation = locker.RevocationUnseen }, "D37", conformance.Unclaimed},
		{"too little: revocation at once", mem, func(g *locker.Guarantees) { g.Revocation = locker.RevocationRenewal }, "D37.1", conformance.Unclaimed},
		{"too little: leases survive", toy, func(g *locker.Guarantees) { g.Restart = locker.RestartTokens }, "E42.3", conformance.Unclaimed},
		{"too much: revocation at once", toy, func(g *locker.Guarantees) { g.Revocation = locker.RevocationAtOnce }, "D37.1", conformance.Failed},
		{"too much: leases survive", mem, func(g *locker.Guarantees) { g.Restart = locker.RestartLeases }, "E42.3", conformance.Failed},
		{"too much: order", toy, func(g *locker.Guarantees) { g.Order = locker.OrderFIFO }, "B22.3", conformance.Failed},
		{"too much: notices", toy, func(g *locker.Guarantees) { g.Waiting = locker.WaitingNotify }, "B12.1", conformance.Failed},
		{"too much: notices, of a waiter that polls often", often, func(g *locker.Guarantees) { g.Waiting = locker.WaitingNotify }, "B12.1", conformance.Failed},
		{"too much: hand-off", toy, func(g *locker.Guarantees) { g.Waiting = locker.WaitingHandOff }, "B21", conformance.Failed},
		{"too little: holder", mem, func(g *locker.Guarantees) { g.Inspection = locker.InspectionNone }, "J64", conformance.Unclaimed},
		{"too little: queue", mem, func(g *locker.Guarantees) { g.Inspection = locker.InspectionHolder }, "J65", conformance.Unclaimed},
		{"too much: inspection", toy, func(g *locker.Guarantees) { g.Inspection = locker.InspectionHolder }, "J64", conformance.Failed},
		{"too little: break", mem, func(g *locker.Guarantees) { g.Break = locker.BreakNone }, "J72", conformance.Unclaimed},
		{"too little: break at once", mem, func(g *locker.Guarantees) { g.Break = locker.BreakSeenAtRenewal }, "J72.2", conformance.Unclaimed},
		{"too much: break at once", toy, func(g *locker.Guarantees) { g.Break = locker.BreakSeenAtOnce }, "J72.2", conformance.Failed},
		{"rightly nothing", toy, func(*locker.Guarantees) {}, "D37.1", conformance.Skipped},
	}
}

// TestManifestIsCheckedBothWays changes one claim at a time.
func TestManifestIsCheckedBothWays(t *testing.T) {
	for _, test := range claims() {
		t.Run(test.what, func(t *testing.T) {
			i := slices.IndexFunc(conformance.Cases(), func(c conformance.Case) bool { return c.ID == test.id })
			h := inBubbles(test.harness(claiming(test.change)))
			synctest.Test(t, func(t *testing.T) {
				err := conformance.Evaluate(t.Context(), h, conformance.Cases()[i:i+1], func(r conformance.Result) {
					if r.Verdict != test.want {
						t.Errorf("%s: %v (%s), want %v\n%s", test.id, r.Verdict, r.Reason, test.want, r.Log)
					}
				})
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestHarnessAndClaimMustAgree runs a harness that has no TTL for a backend that has one.
func TestHarnessAndClaimMustAgree(t *testing.T) {
	h := memHarness(plain)
	h.TTL = 0
	if err := conformance.Evaluate(t.Context(), h, nil, nil); err == nil || !strings.Contains(err.Error(), "Harness.TTL") {
		t.Errorf("Evaluate without a TTL = %v, want an error about Harness.TTL", err)
	}
}
