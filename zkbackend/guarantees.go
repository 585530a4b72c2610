package zkbackend

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencedlock/locker"
)

// Guarantees is what a Locker promises on an ensemble of three servers or more with this tickTime (0: ZooKeeper's
// default, 2 s), of which the time depends after which a dead holder's lock is free. A Locker that has been opened knows more, and promises
// less where it must: with less servers than three, or where it was given the addresses of a minority alone, none may fail
// ([locker.ToleranceNone]); where the shortest session that the servers grant is longer than what a short TTL needs, a dead holder's
// lock is free that much later. Because says so then.
//
// Expiry.Slack counts from when the servers' answers begin to be lost, or the holder dies, and holds as long as the leader
// stays. A new leader gives each session its whole timeout again: the lock is free at the latest when the timeout (the TTL,
// tick/2 twice, and the larger one of tick/2 and 1 s) and one and a half ticks have passed since the last leader began to lead.
func Guarantees(tick time.Duration) locker.Guarantees {
	if tick == 0 {
		tick = defaultTick
	}
	m := marginsOf(tick)
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
			Slack: m.slack(tick),
		},
		Revocation: locker.RevocationAtOnce,
		Restart:    locker.RestartLeases,
		RoundTrips: 1,
		Cost:       locker.CostHigh,
	}
}

// found is what a Locker promises on the ensemble that it has found. voting is the number of servers that vote, 0 if that may not be
// read; shortest is the shortest session that they grant.
func (d *zkDriver) found(voting int, shortest time.Duration) locker.Guarantees {
	g := Guarantees(d.tick)
	var because []string
	named := slices.Clone(d.servers)
	slices.Sort(named)
	if why := fragile(len(slices.Compact(named)), voting); why != "" {
		g.Tolerance = locker.ToleranceNone
		because = append(because, why)
	}
	if excess := shortest - d.margins.timeout(shortestTTL(d.tick)); excess > 0 {
		g.Expiry.Slack += excess
		because = append(because, fmt.Sprintf("the servers grant no session shorter than %v (minSessionTimeout), at a tick of %v", shortest, d.tick))
	}
	g.Because = strings.Join(because, "; ")
	return g
}

// fragile says why the loss of a minority of the servers may be the end of the service. It is empty where that isn't so: the Locker
// knows the addresses of more servers than a minority has.
func fragile(named, voting int) string {
	switch {
	case voting == 0 && named < 3:
		return "less than three servers are named, and the servers' own list of them can't be read"
	case voting == 0:
		return ""
	case voting < 3:
		return "the ensemble has less than three servers"
	case named <= (voting-1)/2:
		return fmt.Sprintf("the Locker was given %d of the addresses of the ensemble's %d servers: name each of them", named, voting)
	}
	return ""
}

// voting counts the servers that vote. The servers keep a list of themselves in a node; who may not read it has to be content with those
// that are known here.
func (s *session) voting() int {
	list, _, err := s.conn.Get("/zookeeper/config")
	if err != nil {
		return 0
	}
	return strings.Count(string(list), ":participant")
}
