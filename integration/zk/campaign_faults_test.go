//go:build unix

package zk

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/zkbackend"
)

// zkFault is one kind of fault. run makes it, and returns when it is over and all is well again.
type zkFault struct {
	name   string
	leader bool // it strikes the leader; else a follower
	run    func(t conformance.T, at *zkScene)
}

// zkScene is where a fault strikes.
type zkScene struct {
	*Service
	target   *zkServer
	networks []*proxy.Network // one for each holder
	slack    time.Duration    // how much later than the TTL a silent holder's lock is free
}

var zkFaults = []zkFault{
	{"client-cut-off", false, func(t conformance.T, at *zkScene) {
		for _, n := range at.networks {
			n.Cut()
		}
		step.Pass(t, at.past())
		for _, n := range at.networks {
			n.Heal()
		}
	}},
	{"server-cut-off", false, func(t conformance.T, at *zkScene) { at.cutOff(t) }},
	{"server-cut-off-under-load", false, func(t conformance.T, at *zkScene) {
		defer at.load(t)()
		at.cutOff(t)
	}},
	{"server-cut-off-after-a-stall", false, func(t conformance.T, at *zkScene) {
		at.stall(t, at.target)
		at.cutOff(t)
	}},
	{"server-cut-off-after-a-stall-under-load", false, func(t conformance.T, at *zkScene) {
		defer at.load(t)()
		at.stall(t, at.target)
		at.cutOff(t)
	}},
	{"server-cut-off-after-a-stall-of-the-leader", false, func(t conformance.T, at *zkScene) {
		var leader *zkServer
		at.do(t, func(ctx context.Context) (err error) { leader, err = at.leader(ctx); return err })
		at.stall(t, leader)
		at.cutOff(t)
	}},
	{"leader-cut-off", true, func(t conformance.T, at *zkScene) { at.cutOff(t) }},
	{"leader-killed", true, func(t conformance.T, at *zkScene) {
		at.docker(t, "kill", at.target)
		step.Pass(t, upTo(2*zkCampaignTTL))
		at.docker(t, "start", at.target)
	}},
	{"leader-frozen-briefly", true, func(t conformance.T, at *zkScene) {
		at.docker(t, "pause", at.target)
		step.Pass(t, zkCampaignTTL/4+upTo(zkCampaignTTL/2))
		at.docker(t, "unpause", at.target)
	}},
	{"leader-frozen-for-long", true, func(t conformance.T, at *zkScene) {
		at.docker(t, "pause", at.target)
		step.Pass(t, at.past())
		at.docker(t, "unpause", at.target)
	}},
}

func upTo(d time.Duration) time.Duration { return time.Duration(rand.Int64N(int64(d))) }

// past is the time after which the session of a silent holder has ended, or nearly so.
func (at *zkScene) past() time.Duration {
	return zkCampaignTTL + at.slack - at.tick + upTo(2*at.tick)
}

func (at *zkScene) do(t conformance.T, f func(context.Context) error) {
	t.Helper()
	itest.Must(t, f)
}

func (at *zkScene) docker(t conformance.T, verb string, server *zkServer) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error { return at.Service.docker(ctx, verb, server) })
}

// cutOff isolates the server, with all of its clients.
func (at *zkScene) cutOff(t conformance.T) {
	at.do(t, func(ctx context.Context) error { return at.cut(ctx, at.target) })
	step.Pass(t, at.past())
	at.do(t, func(ctx context.Context) error { return at.join(ctx, at.target) })
}

// stall makes a server stand still for less than the second that its pings may be late by, until
// just now.
func (at *zkScene) stall(t conformance.T, server *zkServer) {
	at.docker(t, "pause", server)
	step.Pass(t, 300*time.Millisecond+upTo(600*time.Millisecond))
	at.docker(t, "unpause", server)
	step.Pass(t, upTo(300*time.Millisecond))
}

// load has clients write until stop is called.
func (at *zkScene) load(t conformance.T) (stop func()) {
	l := at.Through(t, at.counter.dial, at.otherAddrs())
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 8 {
		name := step.LockName(t)
		all.Go(func() {
			for ctx.Err() == nil {
				_ = locker.Do(ctx, l, name, func(context.Context, locker.Lease) error { return nil })
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
		_ = l.Close()
	}
}

func (s *Service) newZkScene(t conformance.T, fault zkFault) *zkScene {
	t.Helper()
	at := &zkScene{Service: s}
	itest.Must(t, func(ctx context.Context) error {
		leader, err := s.leader(ctx)
		if err != nil {
			return err
		}
		if at.target = leader; !fault.leader {
			at.target = s.others(leader)[rand.IntN(zkServers-1)]
		}
		return nil
	})
	return at
}

// otherAddrs are the addresses of the servers that are not struck.
func (at *zkScene) otherAddrs() (addrs []string) {
	for _, server := range at.others(at.target) {
		addrs = append(addrs, itest.LocalAddr(server.Port))
	}
	return addrs
}

// holders makes the holders: two that know only the server that will be struck, one that knows all
// servers, and one by the usual rule that knows only the struck server.
func (at *zkScene) holders(t conformance.T) (all []*zkHolder) {
	t.Helper()
	target := []string{itest.LocalAddr(at.target.Port)}
	for _, way := range []struct {
		label string
		addrs []string
	}{
		{"knows one server", target},
		{"knows one server, too", target},
		{"knows all servers", at.Addrs()},
	} {
		l, network := at.linkedTo(t, way.addrs, zkbackend.WithDefaultTTL(zkCampaignTTL))
		at.networks = append(at.networks, network)
		name := step.LockName(t)
		lease := step.Acquire(t, step.CloseAtEnd(t, l), name)
		all = append(all, &zkHolder{label: way.label, name: name, Holder: itest.NewOwnRule(lease)})
		step.Pass(t, upTo(zkCampaignTTL/6)) // so that they aren't renewed together
	}
	network := proxy.Start(t)
	at.networks = append(at.networks, network)
	usual := at.zkUsualRule(t, network, target)
	return append(all, &zkHolder{label: "by the usual rule", name: usual.name, usual: true, Holder: usual})
}
