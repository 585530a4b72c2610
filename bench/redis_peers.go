package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/redisbackend"
)

// redisAddr is the address of the server.
type redisAddr string

// ttl is the TTL of all leases: the default of this project.
const ttl = 30 * time.Second

// client makes a client for the peers that use go-redis. It counts messages in the same way for all
// of them.
func (r redisAddr) client() (*redis.Client, *messageCounter) {
	c := redis.NewClient(&redis.Options{
		Addr: string(r),
		// The default, by the CPUs of the machine and not by those that this process may use.
		PoolSize: 10 * cpus,
		// With longer timeouts the backend uses a copy of the client, which go-redis makes without
		// the hook.
		ReadTimeout:  time.Second,
		WriteTimeout: time.Second,
	})
	count := new(messageCounter)
	c.AddHook(count)
	return c, count
}

// messageCounter counts the messages that a client sends: a single command is one, and a pipeline
// is one.
type messageCounter struct{ n atomic.Int64 }

func (m *messageCounter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *messageCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		m.n.Add(1)
		return next(ctx, cmd)
	}
}

func (m *messageCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		m.n.Add(1)
		return next(ctx, cmds)
	}
}

// ping is the bare request.
func (r redisAddr) ping() peer {
	return peer{"PING", []string{"ping"}, 0, func(context.Context) (*client, error) {
		c, count := r.client()
		return &client{
			lock: func(ctx context.Context, _ string) (release, error) {
				return func(context.Context) error { return nil }, c.Ping(ctx).Err()
			},
			close:    func() { _ = c.Close() },
			messages: count.n.Load,
		}, nil
	}}
}

var emptyScript = redis.NewScript("return 1")

// evalsha runs the smallest script: it shows what every request with a script costs.
func (r redisAddr) evalsha() peer {
	return peer{"empty script", []string{"evalsha", "eval"}, 0, func(context.Context) (*client, error) {
		c, count := r.client()
		return &client{
			lock: func(ctx context.Context, name string) (release, error) {
				return func(context.Context) error { return nil }, emptyScript.Run(ctx, c, []string{name}).Err()
			},
			close:    func() { _ = c.Close() },
			messages: count.n.Load,
		}, nil
	}}
}

var (
	setAndCount = redis.NewScript(`if not redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then return 0 end
return redis.call("INCR", KEYS[2])`)
	compareAndDelete = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)
)

// tokenScripts is a lock with a fencing token, written without a library: one script to acquire and
// one to release. It can't wait.
func (r redisAddr) tokenScripts() peer {
	return r.handWritten("raw scripts", func(ctx context.Context, c *redis.Client, name, owner string) error {
		keys := []string{"{" + name + "}", "{" + name + "}:token"}
		token, err := setAndCount.Run(ctx, c, keys, owner, ttl.Milliseconds()).Int64()
		if err == nil && token == 0 {
			return errors.New("somebody else has the lock")
		}
		return err
	})
}

// setNX is the same as tokenScripts, but without a token.
func (r redisAddr) setNX() peer {
	return r.handWritten("SET NX", func(ctx context.Context, c *redis.Client, name, owner string) error {
		return c.SetArgs(ctx, "{"+name+"}", owner, redis.SetArgs{Mode: "NX", TTL: ttl}).Err()
	})
}

func (r redisAddr) handWritten(
	name string, acquire func(ctx context.Context, c *redis.Client, name, owner string) error,
) peer {
	return peer{name, []string{"set", "evalsha", "eval"}, 0, func(context.Context) (*client, error) {
		c, count := r.client()
		return &client{
			lock: func(ctx context.Context, name string) (release, error) {
				owner := rand.Text()
				return func(ctx context.Context) error {
					return compareAndDelete.Run(ctx, c, []string{"{" + name + "}"}, owner).Err()
				}, acquire(ctx, c, name, owner)
			},
			close:    func() { _ = c.Close() },
			messages: count.n.Load,
		}, nil
	}}
}

// locker is opened by URL, as by most programs.
func (r redisAddr) locker() peer {
	return peer{thisProject, lockerCommands, ttl / 3, func(ctx context.Context) (*client, error) {
		l, err := locker.Open(ctx, fmt.Sprintf("redis://%s?pool_size=%d&ttl=%v", string(r), 10*cpus, ttl))
		if err != nil {
			return nil, err
		}
		return lockerClient(l, func() {}, nil), nil
	}}
}

// lockerWithClient has a client that counts messages.
func (r redisAddr) lockerWithClient() peer {
	return peer{thisProject, lockerCommands, ttl / 3, func(ctx context.Context) (*client, error) {
		c, count := r.client()
		l, err := redisbackend.New(ctx, c, redisbackend.WithDefaultTTL(ttl))
		if err != nil {
			return nil, err
		}
		return lockerClient(l, func() { _ = c.Close() }, count.n.Load), nil
	}}
}

var lockerCommands = []string{"evalsha", "eval", "subscribe", "ping"}

// rueidislock is configured for one server, and at its best: NoLoopTracking saves notifications
// about keys that the client has changed itself. With it, a client may wait forever after an
// attempt that took longer than TryNextAfter. So that is a second; it is 20 ms by default.
func (r redisAddr) rueidislock() peer {
	return peer{"rueidislock", []string{"evalsha", "eval"}, ttl / 2, func(context.Context) (*client, error) {
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption:   rueidis.ClientOption{InitAddress: []string{string(r)}},
			KeyValidity:    ttl,
			KeyMajority:    1,
			NoLoopTracking: true,
			TryNextAfter:   time.Second,
		})
		if err != nil {
			return nil, err
		}
		return &client{
			lock: func(ctx context.Context, name string) (release, error) {
				_, cancel, err := l.WithContext(ctx, name)
				return func(context.Context) error {
					cancel() // returns when the key is deleted
					return nil
				}, err
			},
			close: l.Close,
		}, nil
	}}
}

// redislock polls as often as its documentation does.
func (r redisAddr) redislock() peer {
	return peer{"redislock", []string{"evalsha", "eval"}, 0, func(context.Context) (*client, error) {
		c, count := r.client()
		l := redislock.New(c)
		poll := &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
		return &client{
			lock: func(ctx context.Context, name string) (release, error) {
				lock, err := l.Obtain(ctx, name, ttl, poll)
				if err != nil {
					return nil, err
				}
				return lock.Release, nil
			},
			close:    func() { _ = c.Close() },
			messages: count.n.Load,
		}, nil
	}}
}

// redsync polls as often as by default, without a limit of tries.
func (r redisAddr) redsync() peer {
	return peer{"redsync", []string{"set", "evalsha", "eval"}, 0, func(context.Context) (*client, error) {
		c, count := r.client()
		sync := redsync.New(goredis.NewPool(c))
		return &client{
			lock: func(ctx context.Context, name string) (release, error) {
				mutex := sync.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(1<<30))
				return func(ctx context.Context) error {
					_, err := mutex.UnlockContext(ctx)
					return err
				}, mutex.LockContext(ctx)
			},
			close:    func() { _ = c.Close() },
			messages: count.n.Load,
		}, nil
	}}
}
