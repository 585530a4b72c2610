//go:build unix

package redis

import (
	"errors"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// A replica that can be written to would grant locks which its master grants as well, and forget
// them when it follows that the next time.
func TestRedisWritableReplica(t *testing.T) {
	itest.NeedServers(t)
	port, err := itest.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	n, err := StartNode(t.Context(), "redis", port[0], nil, Config(port[0], "replica-read-only no"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { itest.Docker(t, []string{n.ID}, "stop") })
	step.Eventually(t, step.Limit, func() error { return n.Admin.Ping(t.Context()).Err() })
	u := redisURL([]*Node{n})
	replicaOf := func(args ...any) {
		t.Helper()
		if err := n.Admin.Do(t.Context(), append([]any{"replicaof"}, args...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	replicaOf("127.0.0.1", "1")
	itest.RefusedAtOpen(t, u, "replica", "master")
	if _, err := locker.Open(t.Context(), u); !errors.Is(err, locker.ErrOption) {
		t.Errorf("Open on a replica that can be written to = %v, want ErrOption", err)
	}
	replicaOf("no", "one")
	step.FreeWithin(t, 0, step.CloseAtEnd(t, itest.OpenURL(t, u)), step.LockName(t))
}
