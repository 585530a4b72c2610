//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencedlock/locker/integration/images"
)

const (
	group    = "locker"        // what the sentinels call the servers that they watch
	patience = 5 * time.Second // so that the whole service may be paused for some TTLs without a failover
)

// startRedisSentinel starts a master with two replicas, and three sentinels that watch them.
func startRedisSentinel(ctx context.Context, image string) (*redisService, error) {
	ports, err := freePorts(6)
	if err != nil {
		return nil, err
	}
	shared, err := sharedNetwork(ctx, image, ports)
	if err != nil {
		return nil, err
	}
	s := new(redisService)
	for i, port := range ports[:3] {
		config := []string{"masterauth " + redisPassword, "replica-announce-ip 127.0.0.1", fmt.Sprint("replica-announce-port ", port), "repl-diskless-sync-delay 0"}
		if i > 0 {
			config = append(config, fmt.Sprint("replicaof 127.0.0.1 ", ports[0]))
		}
		node, err := startRedisNode(ctx, image, port, shared, redisConfig(port, config...))
		if err != nil {
			return nil, err
		}
		s.nodes = append(s.nodes, node)
	}
	for _, port := range ports[3:] {
		node, err := startRedisNode(ctx, image, port, shared, sentinelConfig(port, ports[0]), "--sentinel")
		if err != nil {
			return nil, err
		}
		s.sentinels = append(s.sentinels, node)
		s.client.Addrs = append(s.client.Addrs, node.addr)
	}
	s.client.MasterName, s.client.Password, s.client.SentinelPassword = group, redisPassword, redisPassword
	s.url = redisURL(s.sentinels, "master_name", group, "password", redisPassword)
	s.ready, s.failover = s.sentinelsReady, s.sentinelFailover
	return s, s.wait(ctx)
}

func sentinelConfig(port, master int) map[string]string {
	return map[string]string{"/data/redis.conf": strings.Join([]string{
		fmt.Sprint("port ", port),
		"protected-mode no",
		"requirepass " + redisPassword,
		"sentinel sentinel-pass " + redisPassword,
		"dir /data",
		fmt.Sprint("sentinel monitor ", group, " 127.0.0.1 ", master, " 2"),
		"sentinel auth-pass " + group + " " + redisPassword,
		fmt.Sprint("sentinel down-after-milliseconds ", group, " ", patience.Milliseconds()),
		"sentinel failover-timeout " + group + " 2000",
		"sentinel parallel-syncs " + group + " 2",
		"sentinel announce-ip 127.0.0.1",
		fmt.Sprint("sentinel announce-port ", port),
	}, "\n") + "\n"}
}

// sentinelsReady is nil when all sentinels see the same master, two replicas that follow it, and each other, and none is in the
// middle of a failover.
func (s *redisService) sentinelsReady(ctx context.Context) error {
	master := ""
	for _, n := range s.sentinels {
		sees, err := n.admin.Do(ctx, "sentinel", "master", group).Result()
		if err != nil {
			return err
		}
		m, ok := sees.(map[any]any)
		if !ok || m["flags"] != "master" || m["num-slaves"] != "2" || m["num-other-sentinels"] != "2" {
			return fmt.Errorf("sentinel %s sees flags %v, %v replicas, %v other sentinels", n.addr, m["flags"], m["num-slaves"], m["num-other-sentinels"])
		}
		addr := fmt.Sprintf("%v:%v", m["ip"], m["port"])
		if master != "" && addr != master {
			return fmt.Errorf("sentinels see masters %s and %s", master, addr)
		}
		master = addr
	}
	for _, n := range s.nodes {
		role, err := n.role(ctx)
		if err != nil {
			return err
		}
		field, want := "master_link_status", "up"
		if n.addr == master {
			field, want = "connected_slaves", "2"
		}
		if got, err := n.info(ctx, "replication", field); err != nil || got != want || (role == "master") != (n.addr == master) {
			return errors.Join(err, fmt.Errorf("node %s is a %s with %s %s", n.addr, role, field, got))
		}
	}
	return nil
}

// master is the address of the master in the eyes of a sentinel.
func (n *redisNode) master(ctx context.Context) (string, error) {
	addr, err := n.admin.Do(ctx, "sentinel", "get-master-addr-by-name", group).StringSlice()
	return strings.Join(addr, ":"), err
}

// sentinelFailover is a crash of the master. What it had not sent to its replicas yet is lost.
func (s *redisService) sentinelFailover(ctx context.Context) error {
	former, err := s.crashMaster(ctx)
	if err != nil {
		return err
	}
	return s.rejoin(ctx, former)
}

// crashMaster returns when a replica has taken over.
func (s *redisService) crashMaster(ctx context.Context) (former *redisNode, err error) {
	addr, err := s.sentinels[0].master(ctx)
	if err != nil {
		return nil, err
	}
	former = s.nodes[slices.IndexFunc(s.nodes, func(n *redisNode) bool { return n.addr == addr })]
	if err := s.patience(ctx, 500*time.Millisecond); err != nil {
		return nil, err
	}
	if _, err := images.Docker(ctx, "kill", former.id); err != nil {
		return nil, err
	}
	return former, until(ctx, func(ctx context.Context) error {
		if addr, err := s.sentinels[0].master(ctx); err != nil || addr == former.addr {
			return errors.Join(err, fmt.Errorf("the master is still %s", former.addr))
		}
		return nil
	})
}

// rejoin starts a former master again, and returns when all is as before.
func (s *redisService) rejoin(ctx context.Context, former *redisNode) error {
	if _, err := images.Docker(ctx, "start", former.id); err != nil {
		return err
	}
	if err := until(ctx, func(ctx context.Context) error { return s.follow(ctx, former) }); err != nil {
		return err
	}
	return errors.Join(s.patience(ctx, patience), s.wait(ctx))
}

// follow makes a replica of a former master. The sentinels would do so after some seconds, when they are sure that it takes itself
// for the master.
func (s *redisService) follow(ctx context.Context, former *redisNode) error {
	addr, err := s.sentinels[0].master(ctx)
	if err != nil || addr == former.addr {
		return errors.Join(err, fmt.Errorf("the master is still %s", former.addr))
	}
	host, port, _ := strings.Cut(addr, ":")
	return errors.Join(former.admin.ReplicaOf(ctx, host, port).Err(), former.admin.ConfigRewrite(ctx).Err())
}

// patience sets after which silence the sentinels take a server for dead.
func (s *redisService) patience(ctx context.Context, d time.Duration) error {
	for _, n := range s.sentinels {
		if err := n.admin.Do(ctx, "sentinel", "set", group, "down-after-milliseconds", d.Milliseconds()).Err(); err != nil {
			return err
		}
	}
	return nil
}
