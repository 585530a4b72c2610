//go:build unix

package zk

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/integration/netns"
	"github.com/fencedlock/locker/zkbackend"
)

// TestZkNoWaitLeavesNoNode has a Locker ask for a held lock that it had before, while no answer
// reaches it. Meanwhile the servers have removed the lock's node, and it was created again. The
// request must leave nothing that keeps the lock from others after its holder's release.
func TestZkNoWaitLeavesNoNode(t *testing.T) {
	itest.NeedServers(t)
	if err := netns.Usable(); err != nil {
		t.Skip(err)
	}
	s := itest.Started(t, "zookeeper", startZk)
	at := &itest.CutTarget{Servers: make(map[string]string)}
	for _, server := range s.Servers {
		at.Servers[itest.LocalAddr(server.Port)] = server.ID
	}
	network := at.Network(t)
	l := step.CloseAtEnd(t, s.Through(t, network.Dial, s.Addrs(), zkbackend.WithDefaultTTL(itest.LongTTL/2)))
	t.Cleanup(func() { itest.Must(t, network.Heal) }) // before the Locker is closed
	other := step.CloseAtEnd(t, s.Open(t))
	name := step.LockName(t)
	step.Release(t, step.Acquire(t, l, name))
	step.Eventually(t, step.Limit, func() error {
		there, _, err := s.admin.Exists(zkDir(name))
		if err == nil && there {
			err = errors.New("the servers have not removed the lock's node")
		}
		return err
	})
	held := step.Acquire(t, other, name)
	itest.Must(t, func(ctx context.Context) error { return network.Cut(ctx, netns.Replies) })
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := locker.TryAcquire(ctx, l, name); err == nil {
		t.Fatalf("TryAcquire = nil, want an error: no answer can have come")
	}
	step.Release(t, held)
	step.WantFree(t, other, name)
}
