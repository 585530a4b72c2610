//go:build unix

package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencedlock/locker/integration/images"
	"github.com/fencedlock/locker/integration/internal/itest"
)

const (
	group    = "locker"        // what the sentinels call the servers that they watch
	patience = 5 * time.Second // so that the whole service may be paused for some TTLs without a failover
)

// startRedisSentinel starts a master with two replicas, and three sentinels that watch them.
func startRedisSentinel(ctx context.Context, image string) (*Service, error) {
	ports, err := itest.FreePorts(6)
	if err != nil {
		return nil, err
	}
	shared, err := itest.SharedNetwork(ctx, image, ports)
	if err != nil {
		return nil, err
	}
	s := new(Service)
	for i, port := range ports[:3] {
		config := []string{"masterauth " + Password, "replica-announce-ip 127.0.0.1", fmt.Sprint("replica-announce-port ", port), "repl-diskless-sync-delay 0"}
		if i > 0 {
			config = append(config, fmt.Sprint("replicaof 127.0.0.1 ", ports[0]))
		}
		node, err := StartNode(ctx, image, port, shared, Config(port, config...))
		if err != nil {
			return nil, err
		}
		s.Nodes = append(s.Nodes, node)
	}
	for _, port := range ports[3:] {
		node, err := StartNode(ctx, image, port, shared, sentinelConfig(port, ports[0]), "--sentinel")
		if err != nil {
			return nil, err
		}
		s.sentinels = append(s.sentinels, node)
		s.client.Addrs = append(s.client.Addrs, node.Addr)
	}
	s.client.MasterName, s.client.Password, s.client.SentinelPassword = group, Password, Password
	s.URL = redisURL(s.sentinels, "master_name", group, "password", Password)
	s.ready, s.failover = s.sentinelsReady, s.sentinelFailover
	return s, s.wait(ctx)
}

func sentinelConfig(port, master int) map[string]string {
	return map[string]string{"/data/redis.conf": strings.Join([]string{
		fmt.Sprint("port ", port),
		"protected-mode no",
		"requirepass " + Password,
		"sentinel sentinel-pass " + Password,
		"dir /data",
		fmt.Sprint("sentinel monitor ", group, " 127.0.0.1 ", master, " 2"),
		"sentinel auth-pass " + group + " " + Password,
		fmt.Sprint("sentinel down-after-milliseconds ", group, " ", patience.Milliseconds()),
		"sentinel failover-timeout " + group + " 2000",
		"sentinel parallel-syncs " + group + " 2",
		"sentinel announce-ip 127.0.0.1",
		fmt.Sprint("sentinel announce-port ", port),
	}, "\n") + "\n"}
}

// sentinelsReady is nil when all sentinels see the same master, two replicas that follow it, and
// each other, and none is in the middle of a failover.
func (s *Service) sentinelsReady(ctx context.Context) error {
	master := ""
	for _, n := range s.sentinels {
		sees, err := n.Admin.Do(ctx, "sentinel", "master", group).Result()
		if err != nil {
			return err
		}
		m, ok := sees.(map[any]any)
		if !ok || m["flags"] != "master" || m["num-slaves"] != "2" || m["num-other-sentinels"] != "2" {
			return fmt.Errorf("sentinel %s sees flags %v, %v replicas, %v other sentinels", n.Addr, m["flags"], m["num-slaves"], m["num-other-sentinels"])
		}
		addr := fmt.Sprintf("%v:%v", m["ip"], m["port"])
		if master != "" && addr != master {
			return fmt.Errorf("sentinels see masters %s and %s", master, addr)
		}
		master = addr
	}
	for _, n := range s.Nodes {
		role, err := n.role(ctx)
		if err != nil {
			return err
		}
		field, want := "master_link_status", "up"
		if n.Addr == master {
			field, want = "connected_slaves", "2"
		}
		if got, err := n.Info(ctx, "replication", field); err != nil || got != want || (role == "master") != (n.Addr == master) {
			return errors.Join(err, fmt.Errorf("node %s is a %s with %s %s", n.Addr, role, field, got))
		}
	}
	return nil
}

// master returns the address of the master according to a sentinel.
func (n *Node) master(ctx context.Context) (string, error) {
	addr, err := n.Admin.Do(ctx, "sentinel", "get-master-addr-by-name", group).StringSlice()
	return strings.Join(addr, ":"), err
}

// sentinelFailover crashes the master. Writes that it had not sent to its replicas are lost.
func (s *Service) sentinelFailover(ctx context.Context) error {
	former, err := s.crashMaster(ctx)
	if err != nil {
		return err
	}
	return s.rejoin(ctx, former)
}

// notInTilt is nil when every sentinel acts. A sentinel that was paused for more than two seconds is
// in TILT for 30 s, and does nothing. If the master crashes in that time, the replicas have been
// without a master for too long when the sentinels act again, and no failover ever comes.
func (s *Service) notInTilt(ctx context.Context) error {
	for _, n := range s.sentinels {
		if tilt, err := n.Info(ctx, "sentinel", "sentinel_tilt"); err != nil || tilt != "0" {
			return errors.Join(err, fmt.Errorf("sentinel %s has sentinel_tilt %q", n.Addr, tilt))
		}
	}
	return nil
}

// crashMaster returns when a replica has taken over.
func (s *Service) crashMaster(ctx context.Context) (former *Node, err error) {
	if err := itest.Until(ctx, s.notInTilt); err != nil {
		return nil, err
	}
	addr, err := s.sentinels[0].master(ctx)
	if err != nil {
		return nil, err
	}
	former = s.Nodes[slices.IndexFunc(s.Nodes, func(n *Node) bool { return n.Addr == addr })]
	if err := s.patience(ctx, 500*time.Millisecond); err != nil {
		return nil, err
	}
	if _, err := images.Docker(ctx, "kill", former.ID); err != nil {
		return nil, err
	}
	return former, itest.Until(ctx, func(ctx context.Context) error {
		if addr, err := s.sentinels[0].master(ctx); err != nil || addr == former.Addr {
			return errors.Join(err, fmt.Errorf("the master is still %s", former.Addr))
		}
		return nil
	})
}

// rejoin starts a former master again, and returns when the service has all its servers again.
func (s *Service) rejoin(ctx context.Context, former *Node) error {
	if _, err := images.Docker(ctx, "start", former.ID); err != nil {
		return err
	}
	if err := itest.Until(ctx, func(ctx context.Context) error { return s.follow(ctx, former) }); err != nil {
		return err
	}
	return errors.Join(s.patience(ctx, patience), s.wait(ctx))
}

// follow makes a former master a replica. The sentinels would do so after some seconds, when they
// are sure that the server believes to be the master.
func (s *Service) follow(ctx context.Context, former *Node) error {
	addr, err := s.sentinels[0].master(ctx)
	if err != nil || addr == former.Addr {
		return errors.Join(err, fmt.Errorf("the master is still %s", former.Addr))
	}
	host, port, _ := strings.Cut(addr, ":")
	return errors.Join(former.Admin.ReplicaOf(ctx, host, port).Err(), former.Admin.ConfigRewrite(ctx).Err())
}

// patience sets the time without an answer after which the sentinels treat a server as dead.
func (s *Service) patience(ctx context.Context, d time.Duration) error {
	for _, n := range s.sentinels {
		if err := n.Admin.Do(ctx, "sentinel", "set", group, "down-after-milliseconds", d.Milliseconds()).Err(); err != nil {
			return err
		}
	}
	return nil
}
