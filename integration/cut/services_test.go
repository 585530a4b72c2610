//go:build unix

package cut

import (
	"context"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	etcdtest "github.com/fencedlock/locker/integration/etcd"
	"github.com/fencedlock/locker/integration/internal/itest"
	pgtest "github.com/fencedlock/locker/integration/pg"
	redistest "github.com/fencedlock/locker/integration/redis"
	redlocktest "github.com/fencedlock/locker/integration/redlock"
	zktest "github.com/fencedlock/locker/integration/zk"
)

// cutServices are servers that no other test uses, because the limits of their kernels are changed,
// which would disturb other tests.
var cutServices = []struct {
	name  string
	start func(*testing.T) *itest.CutTarget
}{
	{"redis", func(t *testing.T) *itest.CutTarget {
		s := itest.Started(t, "redis", redistest.Start)
		return &itest.CutTarget{Servers: redisServers(s.Nodes), Open: s.Open, Through: s.Dialled, Waiters: s.Waiters}
	}},
	{"redlock", func(t *testing.T) *itest.CutTarget {
		s := itest.Started(t, "redis", func(ctx context.Context, image string) (*redlocktest.Service, error) {
			return redlocktest.StartFor(ctx, image, 3, longestTTL)
		})
		through := func(t conformance.T, dial itest.DialFunc) locker.Locker { return s.Dialled(t, dial, longestTTL) }
		return &itest.CutTarget{Servers: redisServers(s.Nodes), Open: s.Open, Through: through, Waiters: s.Waiters}
	}},
	{"etcd", func(t *testing.T) *itest.CutTarget {
		s := itest.Started(t, "etcd", etcdtest.Start)
		servers := make(map[string]string)
		for _, m := range s.Members {
			servers[itest.LocalAddr(m.Port)] = m.ID
		}
		through := func(t conformance.T, dial itest.DialFunc) locker.Locker {
			return etcdtest.NewLocker(t, s.ConfigBy(dial, s.Config.Endpoints))
		}
		return &itest.CutTarget{Servers: servers, Open: s.Open, Through: through, Waiters: s.Waiters}
	}},
	{"zookeeper", func(t *testing.T) *itest.CutTarget {
		s := itest.Started(t, "zookeeper", func(ctx context.Context, image string) (*zktest.Service, error) {
			return zktest.StartFor(ctx, image, 2*longestTTL)
		})
		servers := make(map[string]string)
		for _, server := range s.Servers {
			servers[itest.LocalAddr(server.Port)] = server.ID
		}
		open := func(t conformance.T) locker.Locker { return s.Open(t) }
		through := func(t conformance.T, dial itest.DialFunc) locker.Locker { return s.Through(t, dial, s.Addrs()) }
		return &itest.CutTarget{Servers: servers, Open: open, Through: through, Waiters: s.Waiters}
	}},
	{"postgres", func(t *testing.T) *itest.CutTarget {
		return pgtest.CutTarget(itest.Started(t, "postgres", pgtest.Start))
	}},
	{"postgres-impatient", func(t *testing.T) *itest.CutTarget {
		return pgtest.CutTarget(itest.Started(t, "postgres", pgtest.StartImpatient))
	}},
	{"postgres-pgbouncer", func(t *testing.T) *itest.CutTarget {
		return pgtest.CutTarget(itest.Started(t, "postgres", pgtest.StartBouncer))
	}},
}

func redisServers(nodes []*redistest.Node) map[string]string {
	servers := make(map[string]string)
	for _, n := range nodes {
		servers[n.Addr] = n.ID
	}
	return servers
}
