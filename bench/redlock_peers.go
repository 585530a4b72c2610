package main

import (
	"context"
	"crypto/rand"
	"errors"
	"sync/atomic"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/redlockbackend"
)

// redlockNodes are the addresses of the servers.
type redlockNodes []redisAddr

func (r redlockNodes) clients() (all []*redis.Client, count func() int64, closeAll func()) {
	var counts []*messageCounter
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

// pings is the bare request: one to each server, at the same time.
func (r redlockNodes) pings() peer {
	return peer{"five PINGs", []string{"ping"}, 0, func(context.Context) (*client, error) {
		all, count, closeAll := r.clients()
		return &client{
			lock: func(ctx context.Context, _ string) (release, error) {
				return func(context.Context) error { return nil },
					concurrently(len(all), func(i int) error { return all[i].Ping(ctx).Err() })
			},
			close:    closeAll,
			messages: count,
		}, nil
	}}
}

// setNX is a lock written without a library. It has no token and doesn't handle failures. It can't
// wait.
func (r redlockNodes) setNX() peer {
	return peer{"SET NX", []string{"set", "evalsha", "eval"}, 0, func(context.Context) (*client, error) {
		all, count, closeAll := r.clients()
		return &client{
			lock: func(ctx context.Context, name string) (release, error) {
				owner := rand.Text()
				var got atomic.Int32
				err := concurrently(len(all), func(i int) error {
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
					return concurrently(len(all), func(i int) error {
						return compareAndDelete.Run(ctx, all[i], []string{name}, owner).Err()
					})
				}, nil
			},
			close:    closeAll,
			messages: count,
		}, nil
	}}
}

func (r redlockNodes) locker() peer {
	return peer{thisProject, []string{"evalsha", "eval", "subscribe", "ping"}, ttl / 3, func(ctx context.Context) (*client, error) {
		all, count, closeAll := r.clients()
		l, err := redlockbackend.New(ctx, all, redlockbackend.WithDefaultTTL(ttl), redlockbackend.WithNewCluster())
		if err != nil {
			closeAll()
			return nil, err
		}
		return lockerClient(l, closeAll, count), nil
	}}
}

const redsyncName = "redsync"

// redsync polls as often as by default, without a limit of tries.
func (r redlockNodes) redsync() peer {
	return peer{redsyncName, []string{"set", "evalsha", "eval"}, 0, func(context.Context) (*client, error) {
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
