package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// startRedis starts one server that stores nothing on disk.
func startRedis(ctx context.Context) (_ *service, err error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	server, err := startServer(ctx, "redis", "redis-server",
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--save", "", "--appendonly", "no")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, server.stop())
		}
	}()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	admin := redis.NewClient(&redis.Options{Addr: addr})
	if err := retry(ctx, func(ctx context.Context) error { return admin.Ping(ctx).Err() }); err != nil {
		return nil, err
	}
	info, err := admin.InfoMap(ctx, "server").Result()
	if err != nil {
		return nil, err
	}
	return &service{
		description:   "Redis " + info["Server"]["redis_version"],
		addrs:         []string{addr},
		requestCounts: func(ctx context.Context) (map[string]int64, error) { return commandCounts(ctx, admin) },
		servers:       []*container{server},
		stop:          func() error { return errors.Join(admin.Close(), server.stop()) },
	}, nil
}

func redisPeers(addrs []string) peers {
	r := redisAddr(addrs[0])
	return peers{
		bare:       r.ping(),
		byHand:     r.tokenScripts(),
		load:       []peer{r.locker(), r.rueidislock(), r.redislock(), r.redsync()},
		alone:      []peer{r.evalsha(), r.setNX()},
		handOff:    []peer{r.locker(), r.rueidislock(), r.redislock(), r.redsync()},
		heldLeases: []peer{r.lockerWithClient(), r.rueidislock()}, // the other libraries don't renew
		waiters:    []peer{r.locker(), r.rueidislock(), r.redislock()},
	}
}

// commandCounts returns how often each command was called, by clients and by scripts.
func commandCounts(ctx context.Context, c *redis.Client) (map[string]int64, error) {
	info, err := c.InfoMap(ctx, "commandstats").Result()
	if err != nil {
		return nil, err
	}
	counts := make(map[string]int64)
	for key, value := range info["Commandstats"] { // cmdstat_evalsha: calls=12,usec=345,…
		first, _, _ := strings.Cut(value, ",")
		n, err := strconv.ParseInt(strings.TrimPrefix(first, "calls="), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("INFO commandstats: invalid value %q of %q: want calls=12,…", value, key)
		}
		counts[strings.TrimPrefix(key, "cmdstat_")] = n
	}
	return counts, nil
}

func redisGoals() []goal {
	goals := []goal{
		{scenario: heldLeasesName, metric: "heap", limit: 12},
		{scenario: heldLeasesName, metric: "goroutines", limit: 100},
		{scenario: heldLeasesName, metric: "round trips", limit: 20},
	}
	goals = append(goals, throughputGoals(0, map[int]float64{1: 0.95, 4: 0.9, 16: 1, 64: 1.8, 512: 2.5})...)
	goals = append(goals, throughputGoals(500*time.Microsecond, map[int]float64{1: 0.95, 4: 0.95, 16: 0.95})...)
	goals = append(goals, throughputGoals(5*time.Millisecond, map[int]float64{1: 0.98, 4: 0.98, 16: 0.98, 64: 2.5})...)
	for _, n := range []int{1, 4, 16} {
		goals = append(goals, goal{scenario: loadName(n), metric: "p99", ratio: true, limit: 1})
	}
	for _, n := range []int{2, 16} {
		goals = append(goals, goal{scenario: handOffName(n), metric: "gap, median", ratio: true, limit: 1.75})
	}
	for _, n := range contenderCounts {
		goals = append(goals,
			goal{scenario: handOffName(n), metric: "requests an acquisition", limit: 2.5},
			goal{scenario: handOffName(n), metric: "Jain index", atLeast: true, limit: 0.99})
	}
	for _, n := range lockerCounts {
		goals = append(goals, waitersGoals(n)...)
	}
	return goals
}
