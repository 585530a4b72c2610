//go:build unix

package redis

import (
	"os"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// TestConformance runs the suite and the pack on each service.
func TestConformance(t *testing.T) {
	rows := []itest.Row{
		{Name: "redis", Harness: redisHarness(Standalone)},
		{Name: "redis-sentinel", Harness: redisHarness(redisSentinel)},
		{Name: "redis-cluster", Harness: redisHarness(redisCluster)},
	}
	if os.Getenv("LOCKER_SOAK") != "" { // other versions
		rows = append(rows,
			itest.Row{Name: "redis7", Harness: redisHarness(itest.Lazily("redis7", Start))},
			itest.Row{Name: "redis7-cluster", Harness: redisHarness(itest.Lazily("redis7", startRedisCluster))},
			itest.Row{Name: "valkey", Harness: redisHarness(itest.Lazily("valkey", Start))},
			itest.Row{Name: "valkey-sentinel", Harness: redisHarness(itest.Lazily("valkey", startRedisSentinel))},
			itest.Row{Name: "valkey-cluster", Harness: redisHarness(itest.Lazily("valkey", startRedisCluster))},
		)
	}
	itest.Conformance(t, rows)
}

// redisHarness makes the suite's harness of a service.
func redisHarness(service func(*testing.T) *Service) func(*testing.T) conformance.Harness {
	return func(t *testing.T) conformance.Harness {
		s := service(t)
		h := conformance.Harness{
			Open:   s.Open,
			TTL:    itest.ShortTTL,
			Strict: true,
			Pack:   s.pack(),
			Setup: func(t conformance.T, _ *conformance.Harness) {
				s.flush(t) // what a case that failed has left is not the next one's
			},
			Hooks: conformance.Hooks{
				Linked:   s.linked,
				Process:  itest.StartHolder(s.URL),
				Skewed:   itest.StartSkewed(s.URL),
				Pause:    s.pause,
				Resume:   s.resume,
				Down:     s.down,
				Up:       s.up,
				Restart:  s.restart,
				Wipe:     s.wipe,
				Remove:   s.remove,
				Requests: s.requests,
				Waiters:  s.Waiters,
				Residue:  s.residue,
				Prefixed: func(t conformance.T, prefix string) locker.Locker { return itest.OpenURL(t, s.with("prefix", prefix)) },
				Narrow:   func(t conformance.T) locker.Locker { return itest.OpenURL(t, s.with("pool_size", "1")) },
				URL:      s.URL,
				BadURLs:  s.badURLs(t),
				Secrets:  []string{Password, "open-sesame"},
			},
		}
		if s.failover == nil {
			h.Absent = map[conformance.Hook]string{conformance.HookFailover: "the server has no replica"}
		} else {
			h.Failover = func(t conformance.T) { itest.Must(t, s.failover) }
		}
		if s.client.IsClusterMode {
			h.Waiters = nil // they poll: no server has a queue
		}
		return h
	}
}
