package main

import (
	"fmt"

	"github.com/fencedlock/locker"
)

// hazard is what a fault does that a promise may not cover. Which promise doesn't cover it is read
// from the backend's Guarantees, so that nobody decides it row by row.
type hazard int

const (
	noHazard    hazard = iota
	crash              // what was not written to the disk is lost
	dataLoss           // all servers lose all data
	clientClock        // the wall clock of a holder jumps
	serverClock        // the wall clocks of all servers jump
	failover           // another server leads
)

// exclusions say what the guarantees exclude under a fault, and why. An empty reason excludes
// nothing.
type exclusions struct {
	holders string // two holders at the same time
	tokens  string // tokens that repeat or fall, and so lost updates with the fence
}

// excluded returns what a backend doesn't promise under a fault.
func excluded(h hazard, g locker.Guarantees) (e exclusions) {
	switch h {
	case crash:
		if g.Restart == locker.RestartAsPersisted {
			e.holders = fmt.Sprintf("a restart leaves leases %v, and these were not written", g.Restart)
		}
	case dataLoss:
		// Tolerance has no value that covers the data of all servers.
		e.holders = fmt.Sprintf("all data is lost; fault tolerance: %v", g.Tolerance)
		if g.Fencing != locker.FencingUntilDataLoss { // its clock hasn't stepped back
			e.tokens = fmt.Sprintf("all data is lost; fencing: %v, as long as data lasts", g.Fencing)
		}
	case clientClock:
		if g.Clocks == locker.ClocksAll {
			e.holders = fmt.Sprintf("a client's clock jumps; clocks assumed: %v", g.Clocks)
		}
	case failover:
		if g.Tolerance == locker.ToleranceFailover {
			e.holders = fmt.Sprintf("a replica takes over; fault tolerance: %v", g.Tolerance)
		}
	case serverClock:
		if g.Clocks == locker.ClocksAll || g.Clocks == locker.ClocksServer {
			e.holders = fmt.Sprintf("the servers' clocks jump; clocks assumed: %v", g.Clocks)
		}
	}
	return e
}

// shownExclusion is a row of the page's table.
type shownExclusion struct{ Fault, Backend, What, Why string }

// exclusionTable has all that the guarantees of backends that ran exclude under the faults that ran.
func exclusionTable(in ran) (all []shownExclusion) {
	for _, f := range faults {
		for _, b := range backends {
			if !b.has(f) || !in.backends[b.name] || !in.faults[f.name] {
				continue
			}
			e := excluded(f.hazard, b.promises)
			if e.holders != "" {
				all = append(all, shownExclusion{f.name, b.name, "that a holder is alone", e.holders})
			}
			if e.tokens != "" {
				all = append(all, shownExclusion{f.name, b.name, "that tokens rise, and so the fence", e.tokens})
			}
		}
	}
	return all
}
