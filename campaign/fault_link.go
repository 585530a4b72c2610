package main

import (
	"context"
	"errors"
	"time"

	"github.com/fencedlock/locker/conformance/proxy"
)

// linkFaults are faults of the connections between the victim and the servers, which no cut below
// TCP can show: requests and replies that come late, or not at all.
//
// Two of them begin before the victim has the lock, because they happen to its acquisition.
var linkFaults = []fault{
	slow(fault{name: "slow", what: "each answer takes 100 ms longer from the start, and the section lasts longer than the TTL",
		outlasts: true, harmless: true}),
	{name: "slow-answers", what: "each answer takes half of the TTL longer until the section is over, which lasts longer than the TTL",
		outlasts: true, relayed: true, renews: true,
		inject:        func(_ context.Context, m *match) error { m.link.Delay(0, m.backend.ttl/2); return nil },
		beforeRelease: healLink},
	{name: "late-renewal", what: "the holder's requests are held back for longer than the TTL, and arrive when the rival has the lock",
		silent: true, relayed: true, inject: holdBack, undo: healLink},
	{name: "late-acquire", what: "the holder's requests to acquire are held back for longer than the TTL, and arrive when the rival has the lock",
		relayed: true, beforeAcquire: lateAcquire},
	{name: "late-release", what: "the holder's request to release is held back until the rival has the lock",
		relayed: true, timed: true, beforeRelease: lateRelease},
	{name: "lost-acquire", what: "the reply to the holder's request to acquire is lost, and its connection is broken",
		relayed: true, timed: true, beforeAcquire: lostAcquire},
	{name: "lost-release", what: "the reply to the holder's request to release is lost, and its connection is broken",
		relayed: true, timed: true, beforeRelease: lostRelease},
}

func holdBack(_ context.Context, m *match) error {
	m.link.CutRequests()
	return nil
}

func healLink(_ context.Context, m *match) error {
	m.link.Heal()
	return nil
}

// lateAcquire holds the victim's requests back until the rival holds the lock, which the rival gets
// because nobody else has it.
func lateAcquire(ctx context.Context, m *match) error {
	m.injected = now()
	m.begin()
	m.link.CutRequests()
	m.meanwhile(ctx, func(ctx context.Context) {
		wait(ctx, time.After(m.backend.ttl*5/4))
		m.awaitRival(ctx, m.limit())
		m.link.Heal()
		m.freeLater(ctx)
	})
	return nil
}

// lateRelease holds the victim's requests back from just before its release.
func lateRelease(ctx context.Context, m *match) error {
	m.injected = now()
	m.link.CutRequests()
	m.meanwhile(ctx, func(ctx context.Context) {
		m.awaitRival(ctx, m.limit())
		m.link.Heal()
	})
	return nil
}

// lostAcquire lets the rival compete from the moment at which the reply is lost. The rival doesn't
// hold the lock for long, because the victim wants it all the time.
func lostAcquire(ctx context.Context, m *match) error {
	m.injected = now()
	m.loseReply()
	m.meanwhile(ctx, func(ctx context.Context) {
		m.breakWhenLost(ctx)
		m.begin()
		m.awaitRival(ctx, m.limit())
		m.freeLater(ctx)
	})
	return nil
}

func lostRelease(ctx context.Context, m *match) error {
	m.injected = now()
	m.loseReply()
	m.meanwhile(ctx, m.breakWhenLost)
	return nil
}

// loseReply loses the reply to the next request about the lock, of each server if it goes to all.
func (m *match) loseReply() {
	switch {
	case m.backend.independent:
		m.toLose = len(m.service.addrs)
		m.link.Drop(m.toLose)
	case m.backend.nameless: // nothing else is asked for at that moment
		m.toLose = 1
		m.link.Drop(1)
	default:
		m.toLose = 1
		m.link.DropReplyTo(m.name)
	}
}

const (
	loseLimit = 5 * time.Second        // for the reply that is lost
	lostFor   = 100 * time.Millisecond // from the first piece of the lost reply to the break
)

// breakWhenLost breaks the connections whose replies are lost.
func (m *match) breakWhenLost(ctx context.Context) {
	limit := now() + moment(loseLimit)
	for m.link.Lost() < m.toLose && now() < limit && wait(ctx, time.After(5*time.Millisecond)) {
	}
	wait(ctx, time.After(lostFor)) // a server may say something else before it replies
	m.link.Heal()
}

// errNothingLost makes a round void, because the fault has not happened.
var errNothingLost = errors.New("no reply was lost")

// relay makes a link to the servers that can be disturbed. via maps the servers' addresses to those
// of the link.
func relay(addrs []string) (link *proxy.Network, via map[string]string, err error) {
	if link, err = proxy.New(); err != nil {
		return nil, nil, err
	}
	via = make(map[string]string)
	for _, addr := range addrs {
		if via[addr], err = link.Forward(addr); err != nil {
			link.Close()
			return nil, nil, err
		}
	}
	return link, via, nil
}

// wait returns false if ctx ended first.
func wait[T any](ctx context.Context, c <-chan T) bool {
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}
