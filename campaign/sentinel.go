package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/redisbackend"
)

const (
	masterName = "campaign" // what the Sentinels call the servers that they watch
	sentinels  = 3
)

// startSentinel starts a master with two replicas, and three Sentinels that watch them. The Sentinels
// come after the others in the numbers of the servers.
func startSentinel(ctx context.Context) (_ *service, err error) {
	const nodes = 3
	s, addrs, err := newServers(ctx, nodes+sentinels)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	w := watched{nodes: addrs[:nodes], sentinels: addrs[nodes:]}
	for i, addr := range w.nodes {
		config := []string{"port " + portOf(addr), "protected-mode no", "replica-announce-ip 127.0.0.1", "replica-announce-port " + portOf(addr)}
		if i > 0 {
			config = append(config, "replicaof 127.0.0.1 "+portOf(w.nodes[0]))
		}
		if err := startConfigured(ctx, s, config); err != nil {
			return nil, err
		}
	}
	for _, addr := range w.sentinels {
		config := []string{"port " + portOf(addr), "protected-mode no", "sentinel announce-ip 127.0.0.1", "sentinel announce-port " + portOf(addr),
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %s 2", masterName, portOf(w.nodes[0])),
			"sentinel down-after-milliseconds " + masterName + " 1000", "sentinel failover-timeout " + masterName + " 2000"}
		if err := startConfigured(ctx, s, config, "--sentinel"); err != nil {
			return nil, err
		}
	}
	v := &service{servers: s, addrs: w.sentinels, leader: w.leader}
	v.prepare = func(ctx context.Context) error {
		version, err := redisVersion(ctx, w.nodes[0])
		v.version = "Redis " + version + ", a master with two replicas and three Sentinels"
		return errors.Join(err, w.check(ctx))
	}
	return v, v.ready(ctx)
}

// startConfigured starts a server that changes its own configuration, and keeps the changes when it
// is started again.
func startConfigured(ctx context.Context, s *servers, config []string, options ...string) error {
	const script = `test -f /data/server.conf || printf '%s\n' "$1" > /data/server.conf; shift; exec redis-server /data/server.conf "$@"`
	config = append(config, "dir /data")
	command := slices.Concat([]string{"sh", "-c", script, "sh", strings.Join(config, "\n")}, options)
	return s.start(ctx, "redis", nil, command...)
}

// watched are servers, and the Sentinels that watch them, by their addresses.
type watched struct{ nodes, sentinels []string }

// leader returns the number of the master according to a majority of the Sentinels, unless it is
// former.
func (w watched) leader(ctx context.Context, former int) (int, error) {
	votes := make(map[string]int)
	for _, addr := range w.sentinels {
		if master, err := masterSeenBy(ctx, addr); err == nil {
			votes[master.addr]++
		}
	}
	for i, addr := range w.nodes {
		if i != former && votes[addr] > len(w.sentinels)/2 && roleOf(ctx, addr) == "master" {
			return i, nil
		}
	}
	return nobody, ctx.Err()
}

// check returns nil when all Sentinels see the same master, two replicas that follow it, and each
// other, and no failover is under way.
func (w watched) check(ctx context.Context) error {
	var first seenMaster
	for i, addr := range w.sentinels {
		master, err := masterSeenBy(ctx, addr)
		if err != nil {
			return err
		}
		if i == 0 {
			first = master
		}
		if master != first || master.flags != "master" || master.replicas != fmt.Sprint(len(w.nodes)-1) || master.others != fmt.Sprint(len(w.sentinels)-1) {
			return fmt.Errorf("the Sentinel at %s sees %+v", addr, master)
		}
	}
	for _, addr := range w.nodes {
		if role := roleOf(ctx, addr); (role == "master") != (addr == first.addr) || role == "" {
			return fmt.Errorf("server %s has the role %q, and the master is %s", addr, role, first.addr)
		}
		if addr != first.addr && !follows(ctx, addr) {
			return fmt.Errorf("server %s doesn't follow the master yet", addr)
		}
	}
	return nil
}

// seenMaster is what a Sentinel says of the master.
type seenMaster struct{ addr, flags, replicas, others string }

func masterSeenBy(ctx context.Context, sentinel string) (seenMaster, error) {
	ctx, cancel := context.WithTimeout(ctx, statusLimit)
	defer cancel()
	c := redis.NewSentinelClient(&redis.Options{Addr: sentinel, ContextTimeoutEnabled: true})
	defer c.Close()
	m, err := c.Master(ctx, masterName).Result()
	return seenMaster{addr: net.JoinHostPort(m["ip"], m["port"]), flags: m["flags"], replicas: m["num-slaves"], others: m["num-other-sentinels"]}, err
}

// roleOf returns "" for a server that doesn't answer.
func roleOf(ctx context.Context, addr string) string { return replicationOf(ctx, addr)["role"] }

func follows(ctx context.Context, addr string) bool {
	return replicationOf(ctx, addr)["master_link_status"] == "up"
}

func replicationOf(ctx context.Context, addr string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, statusLimit)
	defer cancel()
	c := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	defer c.Close()
	info, _ := c.InfoMap(ctx, "replication").Result() // nil after an error
	return info["Replication"]
}

// sentinelPromises is what a Locker behind Sentinels promises.
func sentinelPromises() locker.Guarantees {
	g := redisbackend.Guarantees()
	g.Tolerance = locker.ToleranceFailover
	return g
}

func sentinelClient(s site) *redis.Client {
	return redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: masterName, SentinelAddrs: s.addrs, Dialer: s.dial, ContextTimeoutEnabled: true,
	})
}

var sentinelLibraries = []library{
	lockerLibrary("with a client for Sentinels", func(ctx context.Context, s site) (locker.Locker, func(), error) {
		c := sentinelClient(s)
		l, err := redisbackend.New(ctx, c, redisbackend.WithDefaultTTL(s.ttl))
		return l, func() { _ = c.Close() }, err
	}),
	{name: "SET NX PX", setUp: setNXSetUp, noRenewal: true, open: openSetNX(sentinelClient)},
	{name: "redislock", setUp: redislockSetUp, noRenewal: true, open: openRedislock(sentinelClient)},
}
