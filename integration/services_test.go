//go:build unix

package integration

import (
	"testing"

	etcdtest "github.com/fencedlock/locker/integration/etcd"
	pgtest "github.com/fencedlock/locker/integration/pg"
	redistest "github.com/fencedlock/locker/integration/redis"
	redlocktest "github.com/fencedlock/locker/integration/redlock"
	zktest "github.com/fencedlock/locker/integration/zk"
)

// serviceURL returns the URL of a backend's servers, which it starts unless they run.
func serviceURL(t *testing.T, backend string) string {
	t.Helper()
	switch backend {
	case "redis":
		return redistest.Standalone(t).URL
	case "redlock":
		return redlocktest.Servers(t).URL
	case "etcd":
		return etcdtest.Cluster(t).URL
	case "zookeeper":
		return zktest.Ensemble(t).URL
	case "postgres":
		return pgtest.Standalone(t).URL
	}
	t.Fatalf("no servers for %q", backend)
	return ""
}
