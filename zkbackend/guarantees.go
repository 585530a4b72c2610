package zkbackend

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencedlock/locker"
)

// Guarantees returns what a Locker promises on an ensemble of three or more servers with
// ZooKeeper's default tickTime, 2 s. Another tick changes Expiry.Slack. The Guarantees of an opened
// Locker are exact: they are for the servers' tick, and they promise less where that is necessary.
// With fewer than three servers, or with the addresses of a minority alone, no server may fail
// ([locker.ToleranceNone]). If the shortest session that the servers grant is longer than what a
// short TTL needs, a dead holder's lock is free that much later. The field Because says so then.
//
// Expiry.Slack counts from the moment at which the servers' answers begin to be lost, or the holder
// dies, and holds as long as the leader stays. A new leader gives each session its whole timeout
// again: the lock is free at the latest when the timeout (the TTL, tick/2 twice, and the larger one
// of tick/2 and 1 s) and one and a half ticks have passed since the last leader began to lead.
func Guarantees() locker.Guarantees { return guaranteesAt(defaultTick) }

func guaranteesAt(tick time.Duration) locker.Guarantees {
	return locker.Guarantees{
		Backend:   backend,
		Scope:     locker.ScopeNetwork,
		Tolerance: locker.ToleranceMinority,
		Exclusion: locker.ExclusionConsensus,
		Fencing:   locker.FencingDurable,
		Clocks:    locker.ClocksSpeed,
		Order:     locker.OrderFIFO,
		Waiting:   locker.WaitingHandOff,
		Expiry: locker.Expiry{
			By:    locker.ExpirySession,
			TTL:   true,
			Slack: marginsOf(tick).slack(tick),
		},
		Revocation: locker.RevocationAtOnce,
		Restart:    locker.RestartLeases,
		Inspection: locker.InspectionQueue,
		Break:      locker.BreakSeenAtOnce,
		RoundTrips: 1,
		Cost:       locker.CostHigh,
	}
}

// found returns what a Locker promises on the ensemble that it has found: with this tick, so many
// servers that vote (0 if that can't be read), and this shortest session.
func (d *zkDriver) found(tick time.Duration, voting int, shortest time.Duration) locker.Guarantees {
	g := guaranteesAt(tick)
	var because []string
	named := slices.Clone(d.ensemble.Servers)
	slices.Sort(named)
	if why := fragile(len(slices.Compact(named)), voting); why != "" {
		g.Tolerance = locker.ToleranceNone
		because = append(because, why)
	}
	if excess := shortest - d.margins.timeout(shortestTTL(tick)); excess > 0 {
		g.Expiry.Slack += excess
		because = append(because, fmt.Sprintf("the servers grant no session shorter than %v (minSessionTimeout), at a tick of %v", shortest, tick))
	}
	g.Because = strings.Join(because, "; ")
	return g
}

// fragile says why the loss of a minority of the servers may end the service. It is empty if the
// Locker knows the addresses of more servers than a minority has.
func fragile(named, voting int) string {
	switch {
	case voting == 0 && named < 3:
		return "fewer than three servers are named, and the servers' own list of them can't be read"
	case voting == 0:
		return ""
	case voting < 3:
		return "the ensemble has fewer than three servers"
	case named <= (voting-1)/2:
		return fmt.Sprintf("the Locker was given %d of the addresses of the ensemble's %d servers: name each of them", named, voting)
	}
	return ""
}

// voting counts the servers that vote, in the list that the servers keep in a node. It is 0 if that
// node can't be read.
func (s *session) voting() int {
	list, _, _, err := s.conn.GetAndWatch("/zookeeper/config")
	if err != nil {
		return 0
	}
	return strings.Count(string(list), ":participant")
}
