//go:build unix

package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fencedlock/locker/integration/images"
	"github.com/fencedlock/locker/integration/internal/itest"
)

const (
	clusterMasters = 3
	clusterSlots   = 16384
	firstBusPort   = 17000 // within the network that the nodes share
)

// startRedisCluster starts three masters that share the slots, with one replica each.
func startRedisCluster(ctx context.Context, image string) (*Service, error) {
	ports, err := itest.FreePorts(2 * clusterMasters)
	if err != nil {
		return nil, err
	}
	shared, err := itest.SharedNetwork(ctx, image, ports)
	if err != nil {
		return nil, err
	}
	s := new(Service)
	for i, port := range ports {
		node, err := StartNode(ctx, image, port, shared, Config(port,
			"cluster-enabled yes", "cluster-announce-ip 127.0.0.1", fmt.Sprint("cluster-port ", firstBusPort+i),
			"masterauth "+Password, "repl-diskless-sync-delay 0"))
		if err != nil {
			return nil, err
		}
		s.Nodes = append(s.Nodes, node)
		s.client.Addrs = append(s.client.Addrs, node.Addr)
	}
	s.client.IsClusterMode, s.client.Password = true, Password
	s.URL = redisURL(s.Nodes, "cluster", "true")
	s.ready, s.failover = s.clusterReady, s.clusterFailover
	if err := s.joinCluster(ctx, ports); err != nil {
		return nil, err
	}
	return s, s.wait(ctx)
}

// joinCluster makes each pair of nodes known to each other, because gossip takes time.
func (s *Service) joinCluster(ctx context.Context, ports []int) error {
	for i, node := range s.Nodes {
		if err := itest.Until(ctx, func(ctx context.Context) error { return node.Admin.Ping(ctx).Err() }); err != nil {
			return err
		}
		if err := node.Admin.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return err
		}
		for j, port := range ports[:i] {
			if err := node.Admin.Do(ctx, "cluster", "meet", "127.0.0.1", port, firstBusPort+j).Err(); err != nil {
				return err
			}
		}
	}
	for i, node := range s.Nodes[:clusterMasters] {
		first, next := i*clusterSlots/clusterMasters, (i+1)*clusterSlots/clusterMasters
		if err := node.Admin.Do(ctx, "cluster", "addslotsrange", first, next-1).Err(); err != nil {
			return err
		}
		id, err := node.clusterID(ctx)
		if err != nil {
			return err
		}
		replica := s.Nodes[clusterMasters+i]
		err = itest.Until(ctx, func(ctx context.Context) error { return replica.Admin.ClusterReplicate(ctx, id).Err() })
		if err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) clusterID(ctx context.Context) (string, error) {
	return n.Admin.Do(ctx, "cluster", "myid").Text()
}

// clusterReady is nil when all nodes see a cluster that serves all slots, and each master has a
// replica that follows it.
func (s *Service) clusterReady(ctx context.Context) error {
	masters := 0
	for _, n := range s.Nodes {
		text, err := n.Admin.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		info := InfoFields(text)
		state, slots, known := info["cluster_state"], info["cluster_slots_ok"], info["cluster_known_nodes"]
		if state != "ok" || slots != fmt.Sprint(clusterSlots) || known != fmt.Sprint(len(s.Nodes)) {
			return fmt.Errorf("node %s sees a cluster that is %s, with %s slots and %s nodes", n.Addr, state, slots, known)
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
		if got, err := n.Info(ctx, "replication", field); err != nil || got != want {
			return errors.Join(err, fmt.Errorf("node %s is a %s with %s %s", n.Addr, role, field, got))
		}
	}
	if masters != clusterMasters {
		return fmt.Errorf("there are %d masters, want %d", masters, clusterMasters)
	}
	return nil
}

// clusterFailover crashes each master, one after the other, and each replica takes over. Writes
// that a master had not sent to its replica are lost. The former masters are started again, and
// find out by themselves that they are replicas.
func (s *Service) clusterFailover(ctx context.Context) error {
	masters, err := s.masters(ctx)
	if err != nil {
		return err
	}
	for _, former := range masters {
		replica, err := s.replicaOf(ctx, former)
		if err != nil {
			return err
		}
		if _, err := images.Docker(ctx, "kill", former.ID); err != nil {
			return err
		}
		// By itself the replica would take over when the others have missed the master for
		// cluster-node-timeout.
		if err := replica.Admin.Do(ctx, "cluster", "failover", "takeover").Err(); err != nil {
			return err
		}
		err = itest.Until(ctx, func(ctx context.Context) error {
			role, err := replica.role(ctx)
			if err == nil && role != "master" {
				err = fmt.Errorf("node %s is still a %s", replica.Addr, role)
			}
			return err
		})
		if err != nil {
			return err
		}
		if _, err := images.Docker(ctx, "start", former.ID); err != nil {
			return err
		}
	}
	return s.wait(ctx)
}

func (s *Service) masters(ctx context.Context) (masters []*Node, err error) {
	err = s.each(ctx, func(_ context.Context, n *Node) error {
		masters = append(masters, n)
		return nil
	})
	return masters, err
}

func (s *Service) replicaOf(ctx context.Context, master *Node) (*Node, error) {
	answer, err := master.Admin.Do(ctx, "role").Slice() // "master", offset, replicas: address, port, offset
	if err != nil {
		return nil, err
	}
	replicas, _ := answer[2].([]any)
	i := slices.IndexFunc(s.Nodes, func(n *Node) bool {
		if len(replicas) == 0 {
			return false
		}
		fields, _ := replicas[0].([]any)
		return len(fields) > 1 && n.Addr == fmt.Sprintf("%v:%v", fields[0], fields[1])
	})
	if i < 0 {
		return nil, fmt.Errorf("master %s has no replica", master.Addr)
	}
	return s.Nodes[i], nil
}
