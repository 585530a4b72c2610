package main

import (
	"context"
	"time"

	"github.com/fencedlock/locker/integration/netns"
)

// faults is the table of what happens in the victim's critical section, between its read and its
// write. A fault is something that is done to the victim, or to the service once in a round.
var faults = []fault{
	{name: "nothing", what: "nothing: the control"},
	{name: "pause", what: "the holder is stopped (SIGSTOP) after its last look, for longer than the TTL, and then writes",
		away: true, blind: true,
		strike: func(_ context.Context, m *match) error { return m.victim.pause() },
		mend:   func(_ context.Context, m *match) error { return m.victim.resume() }},
	{name: "kill", what: "the holder is killed (SIGKILL)",
		away: true, kills: true,
		strike: func(_ context.Context, m *match) error { m.victim.kill(); return nil }},
	cut("cut", "all packets between the holder and the servers are dropped, below TCP", netns.Both),
	cut("cut-requests", "the holder's packets to the servers are dropped, below TCP", netns.Requests),
	slow(cut("slow-cut", "each answer takes 100 ms longer from the start; then all packets are dropped", netns.Both)),
	renewed(cut("cut-replies", "the servers' packets to the holder are dropped, below TCP", netns.Replies)),
	{name: "restart", what: "all servers are stopped in good order and started with their data",
		serviceFault: func(ctx context.Context, s *service) error { return s.restart(ctx) }},
}

// fault is one way in which something goes wrong.
type fault struct {
	name, what string

	// What is done to the victim. strike begins the fault. mend ends it before the section goes on,
	// and heal ends it after the section.
	strike, mend, heal func(ctx context.Context, m *match) error

	serviceFault func(ctx context.Context, s *service) error // what is done to the service

	away    bool // the service hears nothing of the victim for longer than the TTL
	blind   bool // the victim writes without another look
	kills   bool // the victim doesn't come back
	packets bool // packets are dropped: it needs Linux, root and iptables
	renews  bool // the service hears the victim's renewals until the victim gives up
	delay   time.Duration
}

// cut drops the victim's packets until its section is over.
func cut(name, what string, d netns.Direction) fault {
	return fault{
		name: name, what: what, away: true, packets: true,
		strike: func(ctx context.Context, m *match) error { return m.network.Cut(ctx, d) },
		heal:   func(ctx context.Context, m *match) error { return m.network.Heal(ctx) },
	}
}

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
