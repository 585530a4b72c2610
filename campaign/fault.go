package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fencedlock/locker/integration/netns"
)

// faults is the table of what happens in the victim's critical section, between its read and its
// write. A fault is something that is done to the victim, or to the service once in a round.
var faults = slices.Concat(victimFaults, linkFaults, clockFaults, preloadFaults, serviceFaults, leaderFaults)

var victimFaults = []fault{
	{name: "nothing", what: "nothing: the control"},
	{name: "pause", what: "the holder is stopped (SIGSTOP) after its last look, for longer than the TTL, and then writes",
		away: true, blind: true, strike: pauseVictim, mend: resumeVictim},
	{name: "kill", what: "the holder is killed (SIGKILL)",
		away: true, kills: true,
		strike: func(_ context.Context, m *match) error { m.victim.kill(); return nil }},
	cut("cut", "all packets between the holder and the servers are dropped, below TCP", netns.Both),
	cut("cut-requests", "the holder's packets to the servers are dropped, below TCP", netns.Requests),
	slow(cut("slow-cut", "each answer takes 100 ms longer from the start; then all packets are dropped", netns.Both)),
	{name: "short-cut", what: "all packets between the holder and the servers are dropped for a third of the TTL, and the section lasts longer than the TTL",
		lasts: true, packets: true, needs: packetsUsable, strike: shortCut},
	renewed(cut("cut-replies", "the servers' packets to the holder are dropped, below TCP", netns.Replies)),
}

// fault is one way in which something goes wrong.
type fault struct {
	name, what string

	// What is done to the victim. arm prepares a fault before the section: the victim is about to
	// acquire. strike begins the fault. mend ends it before the section goes on, and heal ends it
	// after the section, just before the release.
	arm, strike, mend, heal func(ctx context.Context, m *match) error

	serviceFault func(ctx context.Context, s *service, plan schedule) error // what is done to the service, after strike

	before func(ctx context.Context, s *service) error // what the service needs before each round
	after  func(ctx context.Context, s *service) error // what it needs after the last one

	needs    func(ctx context.Context) error // the error says why it can't happen on this machine
	leader   bool                            // it happens to a leader, so the service must have one
	preloads bool                            // the servers must be linked with the system's library
	hazard   hazard                          // what a promise may not cover

	away    bool // the service hears nothing of the victim for longer than the TTL
	blind   bool // the victim writes without another look
	kills   bool // the victim doesn't come back
	packets bool // packets are dropped: it needs Linux, root and iptables
	relayed bool // the victim's connections lead through a relay of the program
	renews  bool // the service hears the victim's renewals until the victim gives up
	delay   time.Duration
	ahead   time.Duration // the victim's wall clock jumps by this after its read

	lasts    bool // the section goes on when more than a TTL has passed
	lingers  bool // the section goes on when the rival has the lock, or after half of the TTL
	timed    bool // the rival's grant is timed, as if the victim were away
	elects   bool // the leader changes after the holder's last message, so the lease may last as long again
	harmless bool // a library that renews loses nothing by it
}

func pauseVictim(_ context.Context, m *match) error  { return m.victim.pause() }
func resumeVictim(_ context.Context, m *match) error { return m.victim.resume() }

// cut drops the victim's packets until its section is over.
func cut(name, what string, d netns.Direction) fault {
	return fault{
		name: name, what: what, away: true, packets: true, needs: packetsUsable,
		strike: func(ctx context.Context, m *match) error { return m.network.Cut(ctx, d) },
		heal:   func(ctx context.Context, m *match) error { return m.network.Heal(ctx) },
	}
}

func shortCut(ctx context.Context, m *match) error {
	err := m.network.Cut(ctx, netns.Both)
	wait(ctx, time.After(m.backend.ttl/3))
	return errors.Join(err, m.network.Heal(ctx))
}

func packetsUsable(context.Context) error { return netns.Usable() }

// slowAnswer is how much longer an answer takes on a slow link.
const slowAnswer = 100 * time.Millisecond

func slow(f fault) fault {
	f.delay = slowAnswer
	return f
}

func renewed(f fault) fault {
	f.renews = true
	return f
}
