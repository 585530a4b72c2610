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
var faults = slices.Concat(victimFaults, linkFaults, clockFaults, preloadFaults, serviceFaults, leaderFaults, clusterFaults)

var victimFaults = []fault{
	{name: controlFault, what: "nothing: the control"},
	{name: pauseFault, what: "the holder is stopped (SIGSTOP) after its last look, for longer than the TTL, and then writes",
		silent: true, unchecked: true, inject: pauseVictim, undo: resumeVictim},
	{name: "kill", what: "the holder is killed (SIGKILL)",
		silent: true, kills: true,
		inject: func(_ context.Context, m *match) error { m.victim.kill(); return nil }},
	cut("cut", "all packets between the holder and the servers are dropped, below TCP", netns.Both),
	cut("cut-requests", "the holder's packets to the servers are dropped, below TCP", netns.Requests),
	slow(cut("slow-cut", "each answer takes 100 ms longer from the start; then all packets are dropped", netns.Both)),
	{name: "short-cut", what: "all packets between the holder and the servers are dropped for a third of the TTL, and the section lasts longer than the TTL",
		outlasts: true, packets: true, needs: packetsUsable, inject: shortCut},
	renewed(cut("cut-replies", "the servers' packets to the holder are dropped, below TCP", netns.Replies)),
}

// fault is one way in which something goes wrong.
type fault struct {
	name, what string

	// What is done to the victim: before it acquires the lock, in its section, before the section goes
	// on, and when the section is over but the lock isn't released. A fault that inject begins is
	// ended by undo or by beforeRelease.
	beforeAcquire, inject, undo, beforeRelease func(ctx context.Context, m *match) error

	serviceFault func(ctx context.Context, s *service, plan schedule) error // what is done to the service, after inject
	beforeRound  func(ctx context.Context, s *service) error                // what the service needs before each round

	needs       func(ctx context.Context) error // the error says why it can't happen on this machine
	leader      bool                            // it happens to a leader, so the service must have one
	killsLeader bool                            // it is killed
	sharded     bool                            // the servers must share the keys
	isolates    bool                            // the servers must have ports for each other
	preloads    bool                            // the servers must be linked with the system's library
	hazard      hazard                          // what a promise may not cover

	silent    bool // the service hears nothing of the victim for longer than the TTL
	unchecked bool // the victim writes without another look
	kills     bool // the victim doesn't come back
	packets   bool // packets are dropped: it needs Linux, root and iptables
	relayed   bool // the victim's connections lead through a relay of the program
	renews    bool // the service hears the victim's renewals until the victim gives up
	delay     time.Duration
	ahead     time.Duration // the victim's wall clock jumps by this after its read

	outlasts    bool // the section goes on when more than a TTL has passed
	awaitsRival bool // the section goes on when the rival has the lock, or after half of the TTL
	timed       bool // the rival's grant is timed, as if the victim were silent
	elects      bool // the leader changes after the holder's last message, so the lease may last as long again
	harmless    bool // a library that renews loses nothing by it
}

// Rounds of these faults must prove something about each library: see the rules.
const (
	controlFault = "nothing"
	pauseFault   = "pause"
)

// keepsLock reports whether a library that renews keeps the lock in spite of the fault.
func (f fault) keepsLock() bool { return f.harmless || f.name == controlFault }

func pauseVictim(_ context.Context, m *match) error  { return m.victim.pause() }
func resumeVictim(_ context.Context, m *match) error { return m.victim.resume() }

// cut drops the victim's packets until its section is over.
func cut(name, what string, d netns.Direction) fault {
	return fault{
		name: name, what: what, silent: true, packets: true, needs: packetsUsable,
		inject:        func(ctx context.Context, m *match) error { return m.network.Cut(ctx, d) },
		beforeRelease: func(ctx context.Context, m *match) error { return m.network.Heal(ctx) },
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
