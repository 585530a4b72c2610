//go:build unix

package integration

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/images"
	"github.com/fencedlock/locker/integration/netns"
)

// dialFunc makes a Locker's connections.
type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// cutAt is a service of which packets can be taken away.
type cutAt struct {
	servers map[string]string // a container that has the server's network, by the server's address
	open    func(conformance.T) locker.Locker
	through func(conformance.T, dialFunc) locker.Locker
	waiters func(t conformance.T, name string) int
}

// cutServices are servers of their own: limits of their kernel are changed, which would disturb other tests.
var cutServices = []struct {
	name  string
	start func(*testing.T) *cutAt
}{
	{"redis", func(t *testing.T) *cutAt {
		s := started(t, "redis", startRedis)
		return &cutAt{redisServers(s.nodes), s.open, s.dialled, s.waiters}
	}},
	{"redlock", func(t *testing.T) *cutAt {
		s := started(t, "redis", func(ctx context.Context, image string) (*redlockService, error) {
			return startRedlockFor(ctx, image, 3, longestCut)
		})
		through := func(t conformance.T, dial dialFunc) locker.Locker { return s.dialled(t, dial, longestCut) }
		return &cutAt{redisServers(s.nodes), s.open, through, s.waiters}
	}},
	{"etcd", func(t *testing.T) *cutAt {
		s := started(t, "etcd", startEtcd)
		servers := make(map[string]string)
		for _, m := range s.members {
			servers[local(m.port)] = m.id
		}
		through := func(t conformance.T, dial dialFunc) locker.Locker {
			return newEtcdLocker(t, s.configBy(dial, s.config.Endpoints), s.opts...)
		}
		return &cutAt{servers, s.open, through, s.waiters}
	}},
	{"zookeeper", func(t *testing.T) *cutAt {
		s := started(t, "zookeeper", func(ctx context.Context, image string) (*zkService, error) {
			return startZkFor(ctx, image, 2*longestCut)
		})
		servers := make(map[string]string)
		for _, server := range s.servers {
			servers[local(server.port)] = server.id
		}
		open := func(t conformance.T) locker.Locker { return s.open(t) }
		through := func(t conformance.T, dial dialFunc) locker.Locker { return s.through(t, dial, s.addrs()) }
		return &cutAt{servers, open, through, s.waiters}
	}},
	{"postgres", func(t *testing.T) *cutAt {
		return pgCut(started(t, "postgres", startPostgres))
	}},
	{"postgres-impatient", func(t *testing.T) *cutAt {
		return pgCut(started(t, "postgres", startPgImpatient))
	}},
	{"postgres-pgbouncer", func(t *testing.T) *cutAt { return pgCut(started(t, "postgres", startPgBouncer)) }},
}

// started starts a service for one test.
func started[S any](t *testing.T, image string, start func(context.Context, string) (S, error)) S {
	t.Helper()
	return lazily(image, start)(t)
}

func redisServers(nodes []*redisNode) map[string]string {
	servers := make(map[string]string)
	for _, n := range nodes {
		servers[n.addr] = n.id
	}
	return servers
}

func pgCut(s *pgService) *cutAt {
	servers := make(map[string]string)
	for _, n := range s.nodes {
		servers[local(n.port)] = n.id
	}
	if s.bouncer != nil {
		servers[local(s.port)] = s.bouncer.id
	}
	through := func(t conformance.T, dial dialFunc) locker.Locker { return s.dialled(t, dial) }
	return &cutAt{servers, s.open, through, s.waiters}
}

// processes is a process of each server, by the server's address.
func (at *cutAt) processes(t conformance.T) map[string]int {
	t.Helper()
	pids := make(map[string]int)
	must(t, func(ctx context.Context) error {
		for addr, id := range at.servers {
			text, err := images.Docker(ctx, "inspect", "--format", "{{.State.Pid}}", id)
			if err != nil {
				return err
			}
			if pids[addr], err = strconv.Atoi(strings.TrimSpace(text)); err != nil {
				return err
			}
		}
		return nil
	})
	return pids
}

// network is one client's way to the service.
func (at *cutAt) network(t conformance.T) *netns.Network {
	t.Helper()
	network, err := netns.New(at.processes(t))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return network
}
