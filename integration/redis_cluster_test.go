//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fencedlock/locker/integration/images"
)

const (
	clusterMasters = 3
	clusterSlots   = 16384
	firstBusPort   = 17000 // within the network that the nodes share
)

// startRedisCluster starts three masters that have the slots among them, with a replica each.
func startRedisCluster(ctx context.Context, image string) (*redisService, error) {
	ports, err := freePorts(2 * clusterMasters)
	if err != nil {
		return nil, err
	}
	shared, err := sharedNetwork(ctx, image, ports)
	if err != nil {
		return nil, err
	}
	s := new(redisService)
	for i, port := range ports {
		node, err := startRedisNode(ctx, image, port, shared, redisConfig(port,
			"cluster-enabled yes", "cluster-announce-ip 127.0.0.1", fmt.Sprint("cluster-port ", firstBusPort+i),
			"masterauth "+redisPassword, "repl-diskless-sync-delay 0"))
		if err != nil {
			return nil, err
		}
		s.nodes = append(s.nodes, node)
		s.client.Addrs = append(s.client.Addrs, node.addr)
	}
	s.client.IsClusterMode, s.client.Password = true, redisPassword
	s.url = redisURL(s.nodes, "cluster", "true")
	s.ready, s.failover = s.clusterReady, s.clusterFailover
	if err := s.joinCluster(ctx, ports); err != nil {
		return nil, err
	}
	return s, s.wait(ctx)
}

// joinCluster makes the nodes known to each other, all pairs, for gossip takes its time.
func (s *redisService) joinCluster(ctx context.Context, ports []int) error {
	for i, node := range s.nodes {
		if err := until(ctx, func(ctx context.Context) error { return node.admin.Ping(ctx).Err() }); err != nil {
			return err
		}
		if err := node.admin.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return err
		}
		for j, port := range ports[:i] {
			if err := node.admin.Do(ctx, "cluster", "meet", "127.0.0.1", port, firstBusPort+j).Err(); err != nil {
				return err
			}
		}
	}
	for i, node := range s.nodes[:clusterMasters] {
		first, next := i*clusterSlots/clusterMasters, (i+1)*clusterSlots/clusterMasters
		if err := node.admin.Do(ctx, "cluster", "addslotsrange", first, next-1).Err(); err != nil {
			return err
		}
		id, err := node.clusterID(ctx)
		if err != nil {
			return err
		}
		replica := s.nodes[clusterMasters+i]
		err = until(ctx, func(ctx context.Context) error { return replica.admin.ClusterReplicate(ctx, id).Err() })
		if err != nil {
			return err
		}
	}
	return nil
}

func (n *redisNode) clusterID(ctx context.Context) (string, error) {
	return n.admin.Do(ctx, "cluster", "myid").Text()
}

// clusterReady is nil when all nodes see a cluster that serves all slots, and each master has a replica that follows it.
func (s *redisService) clusterReady(ctx context.Context) error {
	masters := 0
	for _, n := range s.nodes {
		text, err := n.admin.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		info := infoFields(text)
		state, slots, known := info["cluster_state"], info["cluster_slots_ok"], info["cluster_known_nodes"]
		if state != "ok" || slots != fmt.Sprint(clusterSlots) || known != fmt.Sprint(len(s.nodes)) {
			return fmt.Errorf("node %s sees a cluster that is %s, with %s slots and %s nodes", n.addr, state, slots, known)
		}
		role, err := n.role(ctx)
		if err != nil {
			return err
		}
		field, want := "master_link_status", "up"
		if role == "master" {
			masters++
			field, want = "connected_slaves", "1"
		}
		if got, err := n.info(ctx, "replication", field); err != nil || got != want {
			return errors.Join(err, fmt.Errorf("node %s is a %s with %s %s", n.addr, role, field, got))
		}
	}
	if masters != clusterMasters {
		return fmt.Errorf("there are %d masters, want %d", masters, clusterMasters)
	}
	return nil
}

// clusterFailover has each master crash, one after the other, and its replica take over. What a master had not sent yet is lost.
// They are started again as replicas, which they find out by themselves.
func (s *redisService) clusterFailover(ctx context.Context) error {
	masters, err := s.masters(ctx)
	if err != nil {
		return err
	}
	for _, former := range masters {
		replica, err := s.replicaOf(ctx, former)
		if err != nil {
			return err
		}
		if _, err := images.Docker(ctx, "kill", former.id); err != nil {
			return err
		}
		// By themselves they would do so when the others have missed the master for cluster-node-timeout.
		if err := replica.admin.Do(ctx, "cluster", "failover", "takeover").Err(); err != nil {
			return err
		}
		err = until(ctx, func(ctx context.Context) error {
			role, err := replica.role(ctx)
			if err == nil && role != "master" {
				err = fmt.Errorf("node %s is still a %s", replica.addr, role)
			}
			return err
		})
		if err != nil {
			return err
		}
		if _, err := images.Docker(ctx, "start", former.id); err != nil {
			return err
		}
	}
	return s.wait(ctx)
}

func (s *redisService) masters(ctx context.Context) (masters []*redisNode, err error) {
	err = s.each(ctx, func(_ context.Context, n *redisNode) error {
		masters = append(masters, n)
		return nil
	})
	return masters, err
}

func (s *redisService) replicaOf(ctx context.Context, master *redisNode) (*redisNode, error) {
	answer, err := master.admin.Do(ctx, "role").Slice() // "master", offset, replicas: address, port, offset
	if err != nil {
		return nil, err
	}
	replicas, _ := answer[2].([]any)
	i := slices.IndexFunc(s.nodes, func(n *redisNode) bool {
		if len(replicas) == 0 {
			return false
		}
		fields, _ := replicas[0].([]any)
		return len(fields) > 1 && n.addr == fmt.Sprintf("%v:%v", fields[0], fields[1])
	})
	if i < 0 {
		return nil, fmt.Errorf("master %s has no replica", master.addr)
	}
	return s.nodes[i], nil
}
