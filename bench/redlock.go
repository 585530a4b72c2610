package main

import (
	"context"
	"errors"
	"net"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// startRedlock starts five independent servers that store nothing on disk.
func startRedlock(ctx context.Context) (_ *service, err error) {
	const size = 5
	var servers containers
	var addrs []string
	var admins []*redis.Client
	stop := func() (err error) {
		for _, admin := range admins {
			err = errors.Join(err, admin.Close())
		}
		return errors.Join(err, servers.stop())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	for range size {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		server, err := startServer(ctx, "redis", "redis-server",
			"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--save", "", "--appendonly", "no")
		if err != nil {
			return nil, err
		}
		servers = append(servers, server)
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		addrs = append(addrs, addr)
		admin := redis.NewClient(&redis.Options{Addr: addr})
		admins = append(admins, admin)
		if err := retry(ctx, func(ctx context.Context) error { return admin.Ping(ctx).Err() }); err != nil {
			return nil, err
		}
	}
	info, err := admins[0].InfoMap(ctx, "server").Result()
	if err != nil {
		return nil, err
	}
	return &service{
		description: "five servers of Redis " + info["Server"]["redis_version"],
		addrs:       addrs,
		requestCounts: func(ctx context.Context) (map[string]int64, error) {
			sum := make(map[string]int64)
			for _, admin := range admins {
				counts, err := commandCounts(ctx, admin)
				if err != nil {
					return nil, err
				}
				for name, n := range counts {
					sum[name] += n
				}
			}
			return sum, nil
		},
		servers: servers,
		stop:    stop,
	}, nil
}

func redlockPeers(addrs []string) peers {
	var nodes redlockNodes
	for _, addr := range addrs {
		nodes = append(nodes, redisAddr(addr))
	}
	return peers{
		bare:       nodes.pings(),
		byHand:     nodes.setNX(),
		load:       []peer{nodes.locker(), nodes.redsync()},
		handOff:    []peer{nodes.locker(), nodes.redsync()},
		heldLeases: []peer{nodes.locker()}, // redsync doesn't renew
		waiters:    []peer{nodes.locker()},
	}
}

// The goals count requests to all five servers, so five requests are one round trip.
func redlockGoals() []goal {
	goals := []goal{
		{scenario: heldLeasesName, metric: "heap", limit: 12},
		{scenario: heldLeasesName, metric: "goroutines", limit: 100},
		{scenario: heldLeasesName, metric: "round trips", limit: 20 * 5},
	}
	goals = append(goals, throughputGoals(0, map[int]float64{1: 0.95, 4: 0.9, 64: 2.5})...)
	for _, n := range lockerCounts {
		goals = append(goals,
			goal{scenario: waitersName(n), metric: "served", atLeast: true, limit: waiterCount},
			goal{scenario: waitersName(n), metric: "within", limit: 30},
			goal{scenario: waitersName(n), metric: "requests a grant", limit: 4 * 5})
	}
	return goals
}
