//go:build unix

package etcd

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// etcdFault is one kind of fault. run makes it, and returns when it is over and all is well again.
type etcdFault struct {
	name   string
	leader bool // it strikes the leader; else a follower
	run    func(t conformance.T, at *scene)
}

// scene is where a fault strikes.
type scene struct {
	*Service
	target   *etcdMember
	networks []*proxy.Network // one for each holder
}

var etcdFaults = []etcdFault{
	{"client-cut-off", true, func(t conformance.T, at *scene) {
		for _, n := range at.networks {
			n.Cut()
		}
		step.Pass(t, between(1.5, 3))
		for _, n := range at.networks {
			n.Heal()
		}
	}},
	{"follower-cut-off", false, func(t conformance.T, at *scene) { at.cutOff(t) }},
	{"leader-cut-off", true, func(t conformance.T, at *scene) { at.cutOff(t) }},
	{"leader-starved-and-cut-off", true, func(t conformance.T, at *scene) {
		at.do(t, at.starve)
		step.Pass(t, between(0, 1))
		at.cutOff(t)
		at.do(t, at.feed)
	}},
	{"leader-killed", true, func(t conformance.T, at *scene) {
		at.docker(t, "kill")
		step.Pass(t, between(0.2, 2))
		at.docker(t, "start")
	}},
	{"leader-frozen-briefly", true, func(t conformance.T, at *scene) { at.freeze(t, between(0.1, 0.95)) }},
	{"leader-frozen-for-long", true, func(t conformance.T, at *scene) { at.freeze(t, between(1, 2.5)) }},
	{"leader-frozen-cut-and-woken", true, func(t conformance.T, at *scene) {
		at.docker(t, "pause")
		step.Pass(t, between(0, 1))
		at.do(t, at.cut)
		step.Pass(t, between(0, 1.5))
		at.docker(t, "unpause")
		step.Pass(t, between(0, 1))
		at.do(t, at.join)
	}},
}

// between is a random time, in TTLs.
func between(low, high float64) time.Duration {
	return time.Duration((low + rand.Float64()*(high-low)) * float64(etcdShortTTL))
}

// do does something to the target.
func (at *scene) do(t conformance.T, f func(context.Context, *etcdMember) error) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error { return f(ctx, at.target) })
}

func (at *scene) docker(t conformance.T, verb string) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error { return at.Service.docker(ctx, verb, at.target) })
}

func (at *scene) cutOff(t conformance.T) {
	at.do(t, at.cut)
	step.Pass(t, between(0.5, 2.5))
	at.do(t, at.join)
}

func (at *scene) freeze(t conformance.T, d time.Duration) {
	at.docker(t, "pause")
	step.Pass(t, d)
	at.docker(t, "unpause")
}

func (s *Service) newScene(t conformance.T, fault etcdFault) *scene {
	t.Helper()
	at := &scene{Service: s}
	itest.Must(t, func(ctx context.Context) error {
		leader, err := s.leader(ctx)
		if err != nil {
			return err
		}
		if at.target = leader; !fault.leader {
			at.target = s.others(leader)[rand.IntN(etcdMembers-1)]
		}
		return nil
	})
	return at
}

// struck is a holder of a lock of its own.
type struck struct {
	label, name string
	usual       bool
	itest.Holder
}

// holders makes them: one that knows the member alone that will be struck, one that asks this one
// first, one that asks another first, and the same again by the usual rule, as far as that makes a
// difference.
func (at *scene) holders(t conformance.T) (all []*struck) {
	t.Helper()
	target := itest.LocalAddr(at.target.Port)
	others := at.others(at.target)
	ways := []struct {
		label     string
		endpoints []string
	}{
		{"knows one member", []string{target}},
		{"asks the member first", []string{target, itest.LocalAddr(others[0].Port), itest.LocalAddr(others[1].Port)}},
		{"asks another first", []string{itest.LocalAddr(others[0].Port), itest.LocalAddr(others[1].Port), target}},
	}
	for i, way := range ways {
		config, network := at.configThrough(t, way.endpoints)
		at.networks = append(at.networks, network)
		l := step.CloseAtEnd(t, NewLocker(t, config))
		name := step.LockName(t)
		var lease locker.Lease
		step.Eventually(t, step.Limit, func() (err error) { // the cluster may still be busy with the fault before
			lease, err = l.Acquire(t.Context(), name, locker.WithTTL(etcdShortTTL))
			return err
		})
		all = append(all, &struck{label: way.label, name: name, Holder: itest.NewOwnRule(lease)})
		if i == 2 {
			continue // the client asks all in turn
		}
		config, network = at.configThrough(t, way.endpoints)
		at.networks = append(at.networks, network)
		h := at.usualRule(t, config)
		all = append(all, &struck{label: way.label + ", by the usual rule", name: h.name, usual: true, Holder: h})
	}
	return all
}
