package main

import (
	"fmt"
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/cmd/locker/internal/plain"
)

// requirements are the names that --require knows, in the order of the matrix. A field's
// lowest value is left out: it requires nothing.
var requirements = []struct {
	name string
	req  locker.Requirement
}{
	{"efficiency", locker.Efficiency},
	{"correctness", locker.Correctness},
	{"scope-machine", locker.ScopeMachine},
	{"scope-network", locker.ScopeNetwork},
	{"tolerance-failover", locker.ToleranceFailover},
	{"tolerance-minority", locker.ToleranceMinority},
	{"exclusion-majority", locker.ExclusionMajority},
	{"exclusion-database", locker.ExclusionDatabase},
	{"exclusion-kernel", locker.ExclusionKernel},
	{"exclusion-consensus", locker.ExclusionConsensus},
	{"fencing-until-data-loss", locker.FencingUntilDataLoss},
	{"fencing-durable", locker.FencingDurable},
	{"clocks-server", locker.ClocksServer},
	{"clocks-speed", locker.ClocksSpeed},
	{"clocks-none", locker.ClocksNone},
	{"order-queue", locker.OrderQueue},
	{"order-fifo", locker.OrderFIFO},
	{"waiting-notify", locker.WaitingNotify},
	{"waiting-hand-off", locker.WaitingHandOff},
	{"silent-holder-expires", locker.RequireTTL},
	{"revocation-renewal", locker.RevocationRenewal},
	{"revocation-at-once", locker.RevocationAtOnce},
	{"restart-as-persisted", locker.RestartAsPersisted},
	{"restart-tokens", locker.RestartTokens},
	{"restart-leases", locker.RestartLeases},
	{"inspection-holder", locker.InspectionHolder},
	{"inspection-queue", locker.InspectionQueue},
	{"break-seen-at-renewal", locker.BreakSeenAtRenewal},
	{"break-seen-at-once", locker.BreakSeenAtOnce},
}

func requirementNames() []string {
	names := make([]string, len(requirements))
	for i, r := range requirements {
		names[i] = r.name
	}
	return names
}

func parseRequirements(names []string) ([]locker.Requirement, error) {
	var reqs []locker.Requirement
	for _, name := range names {
		req := requirement(name)
		if req == nil {
			return nil, fmt.Errorf("--require: %s is unknown (known: %s)", plain.Quote(name), strings.Join(requirementNames(), ", "))
		}
		reqs = append(reqs, req)
	}
	return reqs, nil
}

func requirement(name string) locker.Requirement {
	for _, r := range requirements {
		if r.name == name {
			return r.req
		}
	}
	return nil
}
