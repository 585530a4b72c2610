//go:build unix

package redis

import (
	"context"
	"os"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// TestConformance runs the suite and the pack on each service.
func TestConformance(t *testing.T) {
	rows := []itest.Row{
		{Name: "redis", Harness: redisHarness(standalones)},
		{Name: "redis-sentinel", Harness: redisHarness(sentinels), Like: "redis"},
		{Name: "redis-cluster", Harness: redisHarness(clusters)},
	}
	if os.Getenv("LOCKER_SOAK") != "" { // other versions
		pool := func(image string, start func(context.Context, string) (*Service, error)) func(*testing.T) conformance.Harness {
			return redisHarness(itest.LazyPool(image, start))
		}
		rows = append(rows,
			itest.Row{Name: "redis7", Harness: pool("redis7", Start)},
			itest.Row{Name: "redis7-cluster", Harness: pool("redis7", startRedisCluster)},
			itest.Row{Name: "valkey", Harness: pool("valkey", Start)},
			itest.Row{Name: "valkey-sentinel", Harness: pool("valkey", startRedisSentinel)},
			itest.Row{Name: "valkey-cluster", Harness: pool("valkey", startRedisCluster)},
		)
	}
	itest.Conformance(t, rows)
}

// redisHarness makes the suite's harness of the services of a pool. Each case has one for itself.
func redisHarness(pool func(*testing.T) *itest.Pool[*Service]) func(*testing.T) conformance.Harness {
	return func(t *testing.T) conformance.Harness {
		p := pool(t)
		h := p.SideBySide(func(t conformance.T, h *conformance.Harness, s *Service) {
			s.flush(t) // what a case that failed has left is not the next one's
			h.Open, h.Hooks = s.Open, s.hooks(t)
		})
		h.TTL, h.Strict, h.Pack = itest.ShortTTL, true, p.Cases((*Service).pack)
		return h
	}
}

func (s *Service) hooks(t conformance.T) conformance.Hooks {
	t.Helper()
	hooks := conformance.Hooks{
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
	}
	hooks.Absent = make(map[conformance.Hook]string)
	if !s.oneServer() {
		hooks.Absent[conformance.HookForgetful] = "the pool is go-redis' own here, which keeps dead connections: see docs/redis.md"
	}
	if s.failover == nil {
		hooks.Absent[conformance.HookFailover] = "the server has no replica"
	} else {
		hooks.Failover = func(t conformance.T) { itest.Must(t, s.failover) }
	}
	if s.client.IsClusterMode {
		hooks.Waiters = nil // they poll: no server has a queue
	}
	return hooks
}
