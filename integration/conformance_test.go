//go:build unix

package integration

import (
	"os"
	"testing"

	"github.com/fencedlock/locker/conformance"
)

// TestConformance runs the suite, and then the backend's own cases, on real servers. They are started when a chosen run needs
// them: -run 'TestConformance/redis$/B21' starts one Redis. Runs of different backends go on side by side, as they mostly wait.
func TestConformance(t *testing.T) {
	type backend struct {
		name    string
		harness func(*testing.T) conformance.Harness
	}
	backends := []backend{
		{"redis", redisHarness(redisStandalone)},
		{"redis-sentinel", redisHarness(redisSentinel)},
		{"redis-cluster", redisHarness(redisCluster)},
		{"redlock", redlockHarness(redlockServers)},
		{"etcd", etcdHarness(etcdCluster)},
		{"zookeeper", zkHarness(zkEnsemble)},
		{"postgres", pgHarness(pgStandalone)},
		{"postgres-replica", pgHarness(pgReplica)},
		{"postgres-pgbouncer", pgHarness(pgBouncer)},
	}
	if os.Getenv("LOCKER_SOAK") != "" { // other versions
		backends = append(backends,
			backend{"redis7", redisHarness(lazily("redis7", startRedis))},
			backend{"redis7-cluster", redisHarness(lazily("redis7", startRedisCluster))},
			backend{"valkey", redisHarness(lazily("valkey", startRedis))},
			backend{"valkey-sentinel", redisHarness(lazily("valkey", startRedisSentinel))},
			backend{"valkey-cluster", redisHarness(lazily("valkey", startRedisCluster))},
			backend{"etcd-lease-per-lock", etcdHarness(lazily("etcd", startEtcdLeasePerLock))},
			backend{"etcd35", etcdHarness(lazily("etcd35", startEtcd))},
			backend{"zookeeper38", zkHarness(lazily("zookeeper38", startZk))},
			backend{"postgres15", pgHarness(lazily("postgres15", startPostgres))},
			backend{"postgres15-replica", pgHarness(lazily("postgres15", startPgReplica))},
			backend{"postgres15-pgbouncer", pgHarness(lazily("postgres15", startPgBouncer))},
		)
	}
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			needServers(t)
			t.Parallel()
			h := b.harness(t)
			if h.TTL > 0 {
				h.Pack = append([]conformance.Case{pausedWriters}, h.Pack...)
			}
			conformance.Run(t, h)
		})
	}
}
