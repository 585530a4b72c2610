//go:build unix

package integration

import (
	"errors"
	"testing"

	"github.com/fencedlock/locker"
)

// A replica that can be written to would grant locks which its master grants as well, and forget them when it follows that the next
// time.
func TestRedisWritableReplica(t *testing.T) {
	needServers(t)
	port, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	n, err := startRedisNode(t.Context(), "redis", port[0], nil, redisConfig(port[0], "replica-read-only no"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { docker(t, []string{n.id}, "stop") })
	eventually(t, hang, func() error { return n.admin.Ping(t.Context()).Err() })
	u := redisURL([]*redisNode{n})
	replicaOf := func(args ...any) {
		t.Helper()
		if err := n.admin.Do(t.Context(), append([]any{"replicaof"}, args...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	replicaOf("127.0.0.1", "1")
	refusedAtOpen(t, u, "replica", "master")
	if _, err := locker.Open(t.Context(), u); !errors.Is(err, locker.ErrOption) {
		t.Errorf("Open on a replica that can be written to = %v, want ErrOption", err)
	}
	replicaOf("no", "one")
	free(t, 0, keep(t, openURL(t, u)), lockName(t))
}
