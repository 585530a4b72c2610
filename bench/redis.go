package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

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
	r := redisAddr(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	admin := redis.NewClient(&redis.Options{Addr: string(r)})
	if err := retry(ctx, func(ctx context.Context) error { return admin.Ping(ctx).Err() }); err != nil {
		return nil, err
	}
	info, err := admin.InfoMap(ctx, "server").Result()
	if err != nil {
		return nil, err
	}
	return &service{
		description:    "Redis " + info["Server"]["redis_version"],
		bare:           r.ping(),
		byHand:         r.tokenScripts(),
		loadPeers:      []peer{r.evalsha(), r.setNX(), r.locker(), r.rueidislock(), r.redislock(), r.redsync()},
		handOffPeers:   []peer{r.locker(), r.rueidislock(), r.redislock(), r.redsync()},
		heldLeasePeers: []peer{r.locker(), r.rueidislock()}, // the other libraries don't renew
		waiterPeers:    []peer{r.locker(), r.rueidislock(), r.redislock()},
		goals:          redisGoals(),
		requestCounts:  func(ctx context.Context) (map[string]int64, error) { return commandCounts(ctx, admin) },
		servers:        []*container{server},
		stop:           func() error { return errors.Join(admin.Close(), server.stop()) },
	}, nil
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
		{scenario: loadName(1), metric: "median", ratio: true, limit: 2.1},
		{scenario: loadName(64), metric: "throughput", ratio: true, atLeast: true, limit: 1.5},
		{scenario: loadName(512), metric: "throughput", ratio: true, atLeast: true, limit: 2.5},
		{scenario: heldLeasesName, metric: "heap", limit: 12},
		{scenario: heldLeasesName, metric: "goroutines", limit: 100},
		{scenario: heldLeasesName, metric: "round trips", limit: 20},
	}
	for _, n := range contenderCounts {
		goals = append(goals,
			goal{scenario: handOffName(n), metric: "gap, median", ratio: true, limit: 1.5},
			goal{scenario: handOffName(n), metric: "requests an acquisition", limit: 2.5},
			goal{scenario: handOffName(n), metric: "Jain index", atLeast: true, limit: 0.99})
	}
	for _, n := range lockerCounts {
		goals = append(goals, waitersGoals(n)...)
	}
	return goals
}
