package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/redisbackend"
)

const (
	clusterMasters = 3 // each has a replica
	clusterSlots   = 16384
)

// startCluster starts a Redis Cluster of three masters with a replica each.
func startCluster(ctx context.Context) (_ *service, err error) {
	s, addrs, err := newServers(ctx, 2*clusterMasters)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	for i, addr := range addrs {
		err := s.start(ctx, "redis", nil, "redis-server", "--port", portOf(addr), "--protected-mode", "no",
			"--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1", "--cluster-port", fmt.Sprint(busPort(i)))
		if err != nil {
			return nil, err
		}
	}
	if err := joinCluster(ctx, addrs); err != nil {
		return nil, err
	}
	v := &service{servers: s, addrs: addrs}
	v.prepare = func(ctx context.Context) error {
		version, err := redisVersion(ctx, addrs[0])
		v.version = fmt.Sprintf("Redis %s, a Cluster of %d masters with a replica each", version, clusterMasters)
		return errors.Join(err, clusterServes(ctx, addrs))
	}
	return v, v.ready(ctx)
}

func busPort(i int) int { return 17000 + i } // in the servers' own network

// joinCluster makes the servers known to each other. Each of the first ones gets a third of the slots,
// and the others become their replicas.
func joinCluster(ctx context.Context, addrs []string) error {
	var ids []string
	return eachServer(addrs, func(i int, c *redis.Client) error {
		if err := retry(ctx, func(ctx context.Context) error { return c.Ping(ctx).Err() }); err != nil {
			return err
		}
		if err := c.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return err
		}
		for j, other := range addrs[:i] {
			if err := c.Do(ctx, "cluster", "meet", "127.0.0.1", portOf(other), busPort(j)).Err(); err != nil {
				return err
			}
		}
		if i >= clusterMasters { // it may not know its master yet
			return retry(ctx, func(ctx context.Context) error { return c.ClusterReplicate(ctx, ids[i-clusterMasters]).Err() })
		}
		id, err := c.ClusterMyID(ctx).Result()
		if err != nil {
			return err
		}
		ids = append(ids, id)
		return c.Do(ctx, "cluster", "addslotsrange", i*clusterSlots/clusterMasters, (i+1)*clusterSlots/clusterMasters-1).Err()
	})
}

// clusterServes returns nil when each server knows all others, and that all slots are served, and each
// master has a replica that follows it.
func clusterServes(ctx context.Context, addrs []string) error {
	pairs, err := clusterPairs(ctx, addrs)
	if err == nil && len(pairs) != clusterMasters {
		err = fmt.Errorf("%d masters have a replica", len(pairs))
	}
	if err != nil {
		return err
	}
	return eachServer(addrs, func(_ int, c *redis.Client) error {
		info, err := c.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		fields := infoFields(info)
		if fields["cluster_state"] != "ok" || fields["cluster_slots_ok"] != fmt.Sprint(clusterSlots) || fields["cluster_known_nodes"] != fmt.Sprint(len(addrs)) {
			return fmt.Errorf("the Cluster isn't ready: %v", fields)
		}
		return nil
	})
}

// clusterPair is a master and its replica, by their numbers.
type clusterPair struct{ master, replica int }

// clusterPairs are the masters with a replica that follows them. Roles change with each failover.
func clusterPairs(ctx context.Context, addrs []string) (pairs []clusterPair, err error) {
	for i, addr := range addrs {
		info := replicationOf(ctx, addr)
		switch {
		case info["role"] == "":
			return nil, fmt.Errorf("server %s doesn't answer", addr)
		case info["role"] == "slave" && info["master_link_status"] == "up":
			for j, master := range addrs {
				if portOf(master) == info["master_port"] && roleOf(ctx, master) == "master" {
					pairs = append(pairs, clusterPair{j, i})
				}
			}
		}
	}
	return pairs, nil
}

func eachServer(addrs []string, do func(i int, c *redis.Client) error) error {
	for i, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
		err := do(i, c)
		if closeErr := c.Close(); err != nil || closeErr != nil {
			return errors.Join(err, closeErr)
		}
	}
	return nil
}

// clusterPromises is what a Locker of a Cluster promises.
func clusterPromises() locker.Guarantees {
	g := redisbackend.Guarantees()
	g.Tolerance, g.Order, g.Waiting = locker.ToleranceFailover, locker.OrderNone, locker.WaitingPolled
	return g
}

func clusterClient(s site) *redis.ClusterClient {
	return redis.NewClusterClient(&redis.ClusterOptions{Addrs: s.addrs, Dialer: s.dial, ContextTimeoutEnabled: true})
}

var clusterLibraries = []library{
	lockerLibrary("with a client for a Cluster", func(ctx context.Context, s site) (locker.Locker, func(), error) {
		c := clusterClient(s)
		l, err := redisbackend.New(ctx, c, redisbackend.WithDefaultTTL(s.ttl))
		return l, func() { _ = c.Close() }, err
	}),
	{name: "SET NX PX", setUp: setNXSetUp, noRenewal: true, open: openSetNX(clusterClient)},
	{name: "redislock", setUp: redislockSetUp, noRenewal: true, open: openRedislock(clusterClient)},
}
