package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/redisbackend"
)

// startRedis starts one server.
func startRedis(ctx context.Context) (*service, error) { return startRedisServers(ctx, 1) }

// startRedisServers starts independent servers. Each writes a snapshot when it is stopped in good
// order.
func startRedisServers(ctx context.Context, n int) (_ *service, err error) {
	s, addrs, err := newServers(ctx, n)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	for _, addr := range addrs {
		// The port is published on 127.0.0.1 of the host alone.
		err := s.start(ctx, "redis", nil, "redis-server", "--port", portOf(addr), "--protected-mode", "no",
			"--save", "3600 1", "--appendonly", "no", "--dbfilename", portOf(addr)+".rdb")
		if err != nil {
			return nil, err
		}
	}
	v := &service{servers: s, addrs: addrs}
	v.prepare = func(ctx context.Context) error {
		for _, addr := range addrs {
			version, err := redisVersion(ctx, addr)
			if err != nil {
				return err
			}
			v.version = "Redis " + version
		}
		return nil
	}
	return v, v.ready(ctx)
}

// redisVersion returns the version of a server that serves requests.
func redisVersion(ctx context.Context, addr string) (string, error) {
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	info, err := c.InfoMap(ctx, "server").Result()
	return info["Server"]["redis_version"], err
}

// infoFields are the fields of an answer in the form of INFO.
func infoFields(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	return fields
}

const (
	setNXSetUp     = "asks every 20 ms; compare-and-delete; no renewal"
	redislockSetUp = "asks every 100 ms, as in its documentation; no renewal"
)

var redisLibraries = []library{
	lockerLibrary("", func(ctx context.Context, s site) (locker.Locker, func(), error) {
		c := firstServer(s)
		l, err := redisbackend.New(ctx, c, redisbackend.WithDefaultTTL(s.ttl))
		return l, func() { _ = c.Close() }, err
	}),
	{name: "SET NX PX", setUp: setNXSetUp, noRenewal: true, open: openSetNX(firstServer)},
	{name: "redislock", setUp: redislockSetUp, noRenewal: true, open: openRedislock(firstServer)},
	{name: "redsync", setUp: "one server; as many tries as needed; connected before; no renewal", looks: "Until", noRenewal: true, open: openRedsync},
	{name: "rueidislock", setUp: "majority 1, NoLoopTracking, TryNextAfter 1 s", looks: "the context", open: openRueidislock},
}

func redisClient(s site, addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, Dialer: s.dial, ContextTimeoutEnabled: true})
}

func firstServer(s site) *redis.Client { return redisClient(s, s.addrs[0]) }

var compareAndDeleteScript = redis.NewScript(
	`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

func compareAndDelete(ctx context.Context, c redis.Scripter, name, owner string) error {
	return compareAndDeleteScript.Run(ctx, c, []string{name}, owner).Err()
}

// openSetNX is the recipe of Redis' documentation: SET with NX and PX, and a script that deletes the
// key if it still has the owner's value.
func openSetNX[C redis.UniversalClient](newClient func(site) C) func(context.Context, site) (*client, error) {
	return func(_ context.Context, s site) (*client, error) {
		c := newClient(s)
		return &client{
			lock: func(ctx context.Context, name string) (*holding, error) {
				owner := rand.Text()
				if err := pollSetNX(ctx, c, name, owner, s.ttl); err != nil {
					return nil, err
				}
				return &holding{release: func(ctx context.Context) error { return compareAndDelete(ctx, c, name, owner) }}, nil
			},
			close: func() { _ = c.Close() },
		}, nil
	}
}

// pollSetNX returns when the key is set, or ctx ends.
func pollSetNX(ctx context.Context, c redis.Cmdable, name, owner string, ttl time.Duration) error {
	for {
		err := c.SetArgs(ctx, name, owner, redis.SetArgs{Mode: "NX", TTL: ttl}).Err()
		if !errors.Is(err, redis.Nil) {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func openRedislock[C redis.UniversalClient](newClient func(site) C) func(context.Context, site) (*client, error) {
	return func(_ context.Context, s site) (*client, error) {
		c := newClient(s)
		l := redislock.New(c)
		poll := &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
		return &client{
			lock: func(ctx context.Context, name string) (*holding, error) {
				lock, err := l.Obtain(ctx, name, s.ttl, poll)
				if err != nil {
					return nil, err
				}
				return &holding{release: lock.Release}, nil
			},
			close: func() { _ = c.Close() },
		}, nil
	}
}

// openRedsync is for any number of servers.
func openRedsync(ctx context.Context, s site) (*client, error) {
	var pools []redsyncredis.Pool
	var clients []*redis.Client
	for _, addr := range s.addrs {
		c := redisClient(s, addr)
		_ = c.Ping(ctx).Err() // a try has a twentieth of the TTL, in which a slow network makes no connection
		pools, clients = append(pools, goredis.NewPool(c)), append(clients, c)
	}
	sync := redsync.New(pools...)
	return &client{
		lock: func(ctx context.Context, name string) (*holding, error) {
			mutex := sync.NewMutex(name, redsync.WithExpiry(s.ttl), redsync.WithTries(1<<30))
			if err := mutex.LockContext(ctx); err != nil {
				return nil, err
			}
			return until(mutex.Until(), func(ctx context.Context) error {
				_, err := mutex.UnlockContext(ctx)
				return err
			}), nil
		},
		close: func() { closeAll(clients) },
	}, nil
}

func closeAll(clients []*redis.Client) {
	for _, c := range clients {
		_ = c.Close()
	}
}

func openRueidislock(_ context.Context, s site) (*client, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{
			InitAddress: []string{s.addrs[0]},
			DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return s.dial(ctx, "tcp", addr)
			},
		},
		KeyValidity: s.ttl, KeyMajority: 1, NoLoopTracking: true, TryNextAfter: time.Second,
	})
	if err != nil {
		return nil, err
	}
	return &client{
		lock: func(ctx context.Context, name string) (*holding, error) {
			// The lock ends with the context that it was asked for with, so ctx ends only the waiting.
			asked, giveUp := context.WithCancel(context.WithoutCancel(ctx))
			stop := context.AfterFunc(ctx, giveUp)
			held, cancel, err := l.WithContext(asked, name)
			if err != nil || !stop() {
				giveUp()
				return nil, errors.Join(err, ctx.Err())
			}
			return whileOpen(held.Done(), func(context.Context) error {
				defer giveUp()
				cancel() // returns when the key is deleted
				return nil
			}), nil
		},
		close: l.Close,
	}, nil
}
