package main

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"strconv"
	"sync/atomic"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/redlockbackend"
)

// startRedlock starts five servers that know nothing of each other, and keep nothing on disk.
func startRedlock(ctx context.Context) (_ *service, err error) {
	const size = 5
	var servers containers
	var nodes redlockAt
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
		r := redisAt(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		nodes = append(nodes, r)
		admin := redis.NewClient(&redis.Options{Addr: string(r)})
		admins = append(admins, admin)
		if err := eventually(ctx, func(ctx context.Context) error { return admin.Ping(ctx).Err() }); err != nil {
			return nil, err
		}
	}
	info, err := admins[0].InfoMap(ctx, "server").Result()
	if err != nil {
		return nil, err
	}
	return &service{
		about:    "five servers of Redis " + info["Server"]["redis_version"],
		bare:     nodes.pings(),
		byHand:   nodes.setNX(),
		loads:    []contestant{nodes.locker(), nodes.redsync()},
		handOffs: []contestant{nodes.locker(), nodes.redsync()},
		holds:    []contestant{nodes.locker()}, // redsync doesn't renew
		crowds:   []contestant{nodes.locker()},
		goals:    redlockGoals(),
		requests: func(ctx context.Context) (map[string]int64, error) {
			sum := make(map[string]int64)
			for _, admin := range admins {
				counts, err := calls(ctx, admin)
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

// Requests are those to all five, so five of them are a round trip.
func redlockGoals() []goal {
	goals := []goal{
		{scenario: loadName(1), metric: "median", ratio: true, limit: 2.6},
		{scenario: loadName(64), metric: "throughput", than: redsyncName, atLeast: true, limit: 2.5},
		{scenario: heldName, metric: "heap", limit: 12},
		{scenario: heldName, metric: "goroutines", limit: 100},
		{scenario: heldName, metric: "round trips", limit: 20 * 5},
	}
	for _, n := range processes {
		goals = append(goals,
			goal{scenario: crowdName(n), metric: "served", atLeast: true, limit: waiters},
			goal{scenario: crowdName(n), metric: "within", limit: 30},
			goal{scenario: crowdName(n), metric: "requests a grant", limit: 4 * 5})
	}
	return goals
}

// redlockAt is the servers.
type redlockAt []redisAt

func (r redlockAt) clients() (all []*redis.Client, count func() int64, closeAll func()) {
	var counts []*messageCount
	for _, node := range r {
		c, n := node.client()
		all, counts = append(all, c), append(counts, n)
	}
	count = func() (n int64) {
		for _, c := range counts {
			n += c.n.Load()
		}
		return n
	}
	return all, count, func() {
		for _, c := range all {
			_ = c.Close()
		}
	}
}

// pings is the bare request: one to all servers, side by side.
func (r redlockAt) pings() contestant {
	return contestant{"five PINGs", []string{"ping"}, 0, func(context.Context) (*client, error) {
		all, count, closeAll := r.clients()
		return &client{
			lock: func(ctx context.Context, _ string) (release, error) {
				return func(context.Context) error { return nil },
					together(len(all), func(i int) error { return all[i].Ping(ctx).Err() })
			},
			close:    closeAll,
			messages: count,
		}, nil
	}}
}

// setNX is what one writes without a library, with no token and no care for what fails. It can't wait.
func (r redlockAt) setNX() contestant {
	return contestant{"SET NX", []string{"set", "evalsha", "eval"}, 0, func(context.Context) (*client, error) {
		all, count, closeAll := r.clients()
		return &client{
			lock: func(ctx context.Context, name string) (release, error) {
				owner := rand.Text()
				var got atomic.Int32
				err := together(len(all), func(i int) error {
					err := all[i].SetArgs(ctx, name, owner, redis.SetArgs{Mode: "NX", TTL: ttl}).Err()
					if err == nil {
						got.Add(1)
					}
					return err
				})
				if int(got.Load()) <= len(all)/2 {
					return nil, errors.Join(errors.New("somebody else has the lock"), err)
				}
				return func(ctx context.Context) error {
					return together(len(all), func(i int) error {
						return compareAndDelete.Run(ctx, all[i], []string{name}, owner).Err()
					})
				}, nil
			},
			close:    closeAll,
			messages: count,
		}, nil
	}}
}

func (r redlockAt) locker() contestant {
	return contestant{subject, []string{"evalsha", "eval", "subscribe", "ping"}, ttl / 3, func(ctx context.Context) (*client, error) {
		all, count, closeAll := r.clients()
		l, err := redlockbackend.New(ctx, all, redlockbackend.WithDefaultTTL(ttl), redlockbackend.NewCluster())
		if err != nil {
			closeAll()
			return nil, err
		}
		return ours(l, closeAll, count), nil
	}}
}

const redsyncName = "redsync"

// redsync polls as often as it does by default, without an end.
func (r redlockAt) redsync() contestant {
	return contestant{redsyncName, []string{"set", "evalsha", "eval"}, 0, func(context.Context) (*client, error) {
		all, count, closeAll := r.clients()
		var pools []redsyncredis.Pool
		for _, c := range all {
			pools = append(pools, goredis.NewPool(c))
		}
		sync := redsync.New(pools...)
		return &client{
			lock: func(ctx context.Context, name string) (release, error) {
				mutex := sync.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(1<<30))
				return func(ctx context.Context) error {
					_, err := mutex.UnlockContext(ctx)
					return err
				}, mutex.LockContext(ctx)
			},
			close:    closeAll,
			messages: count,
		}, nil
	}}
}
