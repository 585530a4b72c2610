//go:build unix

package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/images"
	"github.com/fencedlock/locker/integration/internal/itest"
	redistest "github.com/fencedlock/locker/integration/redis"
)

// alivePack tests servers that lose what they have granted while their process continues, so that
// the process has the same id before and after.
func (s *Service) alivePack() []conformance.Case {
	return []conformance.Case{
		{ID: "I26", Name: "replica-of-its-own-copy-grants-nothing-that-is-held", Run: s.replicaAndBack,
			Why: "a server that follows a copy of itself and is promoted again has lost what " +
				"the copy never received, although its process is the same"},
		{ID: "I27", Name: "swapped-databases-grant-nothing-that-is-held", Run: s.swappedAndBack,
			Why: "SWAPDB restores old data, which contains nothing of what was granted in the " +
				"meantime"},
		{ID: "I28", Name: "debug-reload-costs-no-order", Run: s.debugReload,
			Why: "a server can't notice DEBUG RELOAD NOSAVE; as docs/redlock.md says, tokens " +
				"must rise all the same, and the first holder must learn of its loss"},
		{ID: "I29", Name: "writable-replica-takes-no-part", Run: s.writableReplica,
			Why: "everything that a replica grants is gone when it synchronises with its master " +
				"the next time"},
	}
}

// replicaAndBack is a failover to a replica that missed a lease, and a failover back.
func (s *Service) replicaAndBack(t conformance.T, _ *conformance.Harness) {
	defer s.trust(t, s.Nodes)
	one, name := s.Nodes[2], "a"
	port, err := itest.FreePorts(1)
	if err != nil {
		t.Fatalf("%v", err)
	}
	replica, err := redistest.StartNode(t.Context(), s.image, port[0], nil, redistest.Config(port[0], "masterauth "+redistest.Password))
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { itest.Docker(t, ids([]*redistest.Node{replica}), "stop") })
	step.Eventually(t, step.Limit, func() error { return replica.Admin.Ping(t.Context()).Err() })
	do := func(n *redistest.Node, args ...any) {
		t.Helper()
		itest.Must(t, func(ctx context.Context) error { return n.Admin.Do(ctx, args...).Err() })
	}
	follow := func(n, master *redistest.Node) {
		t.Helper()
		host, port := s.inside(t, master)
		do(n, "config", "set", "masterauth", redistest.Password)
		do(master, "config", "set", "repl-diskless-sync-delay", 0)
		do(n, "replicaof", host, port)
		step.Eventually(t, step.Limit, func() error {
			status, err := n.Info(t.Context(), "replication", "master_link_status")
			if err == nil && status != "up" {
				err = fmt.Errorf("the link to the master is %s", status)
			}
			return err
		})
		do(n, "replicaof", "no", "one")
	}
	proved := 0
	for range forgetTries() {
		c := s.standoff(t, name, func() { follow(replica, one) })
		follow(one, replica)
		if c.oneHolder(t, name) {
			proved++
		}
	}
	if proved == 0 {
		t.Errorf("each lease was over when the server was promoted again")
	}
}

// inside is the address at which other containers reach a node.
func (s *Service) inside(t conformance.T, n *redistest.Node) (host, port string) {
	t.Helper()
	text, err := images.Docker(t.Context(), "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}", n.ID)
	if err != nil {
		t.Fatalf("%v", err)
	}
	_, port, _ = strings.Cut(n.Addr, ":")
	return strings.Fields(text)[0], port
}

// swappedAndBack has the lease granted while another database is here.
func (s *Service) swappedAndBack(t conformance.T, _ *conformance.Harness) {
	defer s.trust(t, s.Nodes)
	const other = 9
	one, name := s.Nodes[2], "a"
	swap := func() {
		t.Helper()
		itest.Must(t, func(ctx context.Context) error { return one.Admin.Do(ctx, "swapdb", 0, other).Err() })
	}
	for range forgetTries() {
		c := s.standoff(t, name, swap) // it is granted when that server takes part again
		swap()
		c.oneHolder(t, name)
	}
}

// debugReload does what an operator must not do according to docs/redlock.md, and checks the
// result.
func (s *Service) debugReload(t conformance.T, _ *conformance.Harness) {
	defer s.trust(t, s.Nodes)
	one, name := s.Nodes[2], "a"
	both, tries := 0, 0
	for both < forgetTries() && tries < 5*forgetTries() { // in a few the lease is held on a fourth server as well
		c := s.standoff(t, name, func() {
			itest.Must(t, func(ctx context.Context) error { return one.Admin.Save(ctx).Err() })
		})
		itest.Must(t, func(ctx context.Context) error { return one.Admin.Do(ctx, "debug", "reload", "nosave").Err() })
		tries++
		if c.ask(t, name, standoffTTL/2) { // checks the order
			both++
			if err := c.lease.Renew(t.Context()); !errors.Is(err, locker.ErrLost) {
				t.Errorf("Renew after a larger token was granted = %v, want ErrLost", err)
			}
		}
	}
	t.Logf("DEBUG RELOAD NOSAVE has let a second holder in in %d of %d tries", both, tries)
	if both == 0 {
		t.Errorf("DEBUG RELOAD NOSAVE lets no second holder in: what docs/redlock.md says about it is not true")
	}
}

// writableReplica makes a majority replicas that take writes.
func (s *Service) writableReplica(t conformance.T, _ *conformance.Harness) {
	l, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	step.FreeWithin(t, 0, l, name)
	three := s.Nodes[:3]
	do := func(args ...any) {
		t.Helper()
		itest.Must(t, func(ctx context.Context) error {
			for _, n := range three {
				if err := n.Admin.Do(ctx, args...).Err(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	t.Cleanup(func() {
		do("replicaof", "no", "one")
		do("config", "set", "replica-read-only", "yes")
		s.trust(t, s.Nodes)
	})
	do("config", "set", "replica-read-only", "no")
	do("replicaof", "127.0.0.1", "1")
	for range 3 {
		if err := step.WantFailure(t, itest.ShortWait, l, name); !strings.Contains(err.Error(), "forgotten") {
			t.Errorf("TryAcquire on a majority of writable replicas = %v, want that they take no part", err)
		}
	}
	itest.RefusedAtOpen(t, s.URL, "replica", three[0].Addr)
	do("replicaof", "no", "one")
	promoted := time.Now()
	step.Release(t, step.Acquire(t, l, name))
	if took := time.Since(promoted); took < LongestTTL-time.Second {
		t.Errorf("a lock was granted %v after the promotion of a majority, want the longest TTL, %v", took, LongestTTL)
	}
}
