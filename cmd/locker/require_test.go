package main

import (
	"testing"
	"time"

	"github.com/fencedlock/locker"
)

// Each name asks for something: a backend that promises nothing fails it, and one that promises the
// most meets it.
func TestRequirements(t *testing.T) {
	best := locker.Guarantees{
		Scope:      locker.ScopeNetwork,
		Tolerance:  locker.ToleranceMinority,
		Exclusion:  locker.ExclusionConsensus,
		Fencing:    locker.FencingDurable,
		Clocks:     locker.ClocksNone,
		Order:      locker.OrderFIFO,
		Waiting:    locker.WaitingHandOff,
		Expiry:     locker.Expiry{By: locker.ExpiryKey, TTL: true, Slack: time.Second},
		Revocation: locker.RevocationAtOnce,
		Restart:    locker.RestartLeases,
		Inspection: locker.InspectionQueue,
		Break:      locker.BreakSeenAtOnce,
	}
	lowest := locker.Guarantees{
		Scope:      locker.ScopeProcess,
		Tolerance:  locker.ToleranceNone,
		Exclusion:  locker.ExclusionSingleNode,
		Fencing:    locker.FencingNone,
		Clocks:     locker.ClocksAll,
		Order:      locker.OrderNone,
		Waiting:    locker.WaitingPolled,
		Revocation: locker.RevocationUnseen,
		Restart:    locker.RestartNothing,
		Inspection: locker.InspectionNone,
		Break:      locker.BreakNone,
	}
	names := requirementNames()
	reqs, err := parseRequirements(names)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for i, req := range reqs {
		if seen[names[i]] {
			t.Errorf("%s is there twice", names[i])
		}
		seen[names[i]] = true
		if err := req.Check(best); err != nil {
			t.Errorf("%s against the best = %v, want nil", names[i], err)
		}
		if req.Check(lowest) == nil {
			t.Errorf("%s against the lowest = nil, want an error", names[i])
		}
	}
}
