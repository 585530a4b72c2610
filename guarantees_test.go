package locker_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
)

var strong = locker.Guarantees{
	Backend: "strong", Scope: locker.ScopeNetwork, Tolerance: locker.ToleranceMinority, Exclusion: locker.ExclusionConsensus,
	Fencing: locker.FencingDurable, Clocks: locker.ClocksSpeed, Order: locker.OrderFIFO, Waiting: locker.WaitingHandOff,
	Expiry:     locker.Expiry{By: locker.ExpirySession, TTL: true, Slack: 3 * time.Second},
	Revocation: locker.RevocationAtOnce, Restart: locker.RestartLeases, Inspection: locker.InspectionQueue, Break: locker.BreakSeenAtOnce, RoundTrips: 1, Cost: locker.CostHigh,
}

func TestGuaranteesInWords(t *testing.T) {
	const line = "strong: scope: network; fault tolerance: minority of servers; mutual exclusion: consensus; fencing: durable; " +
		"clocks assumed: speed only; order: FIFO; waiting: hand-off; dead holder ends by: session, TTL + 3s; revocation: seen at once; " +
		"restart leaves: leases and tokens; inspection: holder and queue; break: seen at once; round trips: 1; operational cost: high"
	if got := strong.String(); got != line {
		t.Errorf("String =\n%s\nwant\n%s", got, line)
	}
	limited := strong
	limited.Because = "files in memory"
	if got := limited.String(); got != line+" (files in memory)" {
		t.Errorf("String =\n%s\nwant the reason at its end", got)
	}
	for e, want := range map[locker.Expiry]string{
		{}:                                "unstated",
		{By: locker.ExpiryProcess}:        "process ends",
		{By: locker.ExpiryKey, TTL: true}: "key, TTL",
	} {
		if e.String() != want {
			t.Errorf("Expiry = %q, want %q", e, want)
		}
	}
}

func TestRequire(t *testing.T) {
	singles := []locker.Requirement{
		locker.ScopeNetwork, locker.ToleranceMinority, locker.ExclusionConsensus, locker.FencingDurable, locker.ClocksSpeed, locker.OrderFIFO,
		locker.WaitingHandOff, locker.RevocationAtOnce, locker.RestartLeases, locker.InspectionQueue, locker.BreakSeenAtOnce, locker.ExpirySession, locker.RequireTTL,
		locker.Efficiency, locker.Correctness,
	}
	if err := locker.Require(strong, singles...); err != nil {
		t.Errorf("Require of the strongest = %v", err)
	}
	for _, r := range singles {
		if err := locker.Require(locker.Guarantees{Backend: "silent"}, r); !errors.Is(err, locker.ErrGuarantee) || !strings.Contains(err.Error(), "silent") {
			t.Errorf("Require(%v) of one that promises nothing = %v, want ErrGuarantee and the backend's name", r, err)
		}
	}
	if err := locker.Require(strong); err != nil {
		t.Errorf("Require nothing = %v", err)
	}
}

func TestRequireNamesAllThatIsMissing(t *testing.T) {
	g := strong
	g.Backend, g.Order, g.Fencing = "weak", locker.OrderNone, locker.FencingUntilDataLoss
	err := locker.Require(g, locker.OrderFIFO, locker.ScopeNetwork, locker.Correctness)
	if !errors.Is(err, locker.ErrGuarantee) {
		t.Fatalf("Require = %v, want ErrGuarantee", err)
	}
	for _, part := range []string{"order must be FIFO", "weak has: none", "correctness: fencing must be durable", "until data loss"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("Require = %q, want it to say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "scope") {
		t.Errorf("Require = %q: scope isn't missing", err)
	}
}

func TestCorrectnessNeedsMoreThanEfficiency(t *testing.T) {
	for what, weaken := range map[string]func(*locker.Guarantees){
		"a single node":       func(g *locker.Guarantees) { g.Exclusion = locker.ExclusionSingleNode },
		"majority and clocks": func(g *locker.Guarantees) { g.Exclusion = locker.ExclusionMajority },
		"fencing until loss":  func(g *locker.Guarantees) { g.Fencing = locker.FencingUntilDataLoss },
		"clocks of all":       func(g *locker.Guarantees) { g.Clocks = locker.ClocksAll },
	} {
		g := strong
		weaken(&g)
		if err := locker.Require(g, locker.Correctness); !errors.Is(err, locker.ErrGuarantee) {
			t.Errorf("%s: Require(Correctness) = %v, want ErrGuarantee", what, err)
		}
		if err := locker.Require(g, locker.Efficiency); err != nil {
			t.Errorf("%s: Require(Efficiency) = %v, want nil", what, err)
		}
	}
	if err := locker.Require(strong, locker.Purpose(9)); !errors.Is(err, locker.ErrGuarantee) {
		t.Errorf("an unknown purpose = %v, want ErrGuarantee", err)
	}
}
