package main

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// The names of locks with a mistake that the campaign must find.
const (
	plantedReply   = "planted: deadline from the reply"
	plantedRelease = "planted: release without its owner"
)

var extendScript = redis.NewScript(
	`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) end return 0`)

// openDeadlineFromReply counts the TTL from the moment at which the answer arrives, and not from
// before the request. The server counts from the moment at which the request arrives.
func openDeadlineFromReply(_ context.Context, s site) (*client, error) {
	c := redisClient(s, s.addrs[0])
	return &client{
		lock: func(ctx context.Context, name string) (*holding, error) {
			owner := rand.Text()
			if err := pollSetNX(ctx, c, name, owner, s.ttl); err != nil {
				return nil, err
			}
			l := &replyLease{end: time.Now().Add(s.ttl)}
			renewing, stop := context.WithCancel(context.Background())
			go l.renew(renewing, s.ttl, func(ctx context.Context) error {
				return extendScript.Run(ctx, c, []string{name}, owner, s.ttl.Milliseconds()).Err()
			})
			return &holding{
				held:     func() bool { return time.Now().Before(l.deadline()) },
				deadline: l.deadline,
				release: func(ctx context.Context) error {
					stop()
					return compareAndDelete(ctx, c, name, owner)
				},
			}, nil
		},
		close: func() { _ = c.Close() },
	}, nil
}

// replyLease is a lease with the wrong deadline.
type replyLease struct {
	mu  sync.Mutex
	end time.Time
}

func (l *replyLease) deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

func (l *replyLease) renew(ctx context.Context, ttl time.Duration, extend func(context.Context) error) {
	for ctx.Err() == nil {
		select {
		case <-time.After(ttl / 3):
		case <-ctx.Done():
			return
		}
		if extend(ctx) == nil {
			l.mu.Lock()
			l.end = time.Now().Add(ttl) // the mistake
			l.mu.Unlock()
		}
	}
}

// openReleaseOfAny deletes the key without asking whose it is. Otherwise it is right: its holder
// counts the TTL from before the last request.
func openReleaseOfAny(_ context.Context, s site) (*client, error) {
	c := redisClient(s, s.addrs[0])
	return &client{
		lock: func(ctx context.Context, name string) (*holding, error) {
			for {
				asked := time.Now()
				err := c.SetArgs(ctx, name, rand.Text(), redis.SetArgs{Mode: "NX", TTL: s.ttl}).Err()
				if err == nil {
					return until(asked.Add(s.ttl), func(ctx context.Context) error { return c.Del(ctx, name).Err() }), nil
				}
				if !errors.Is(err, redis.Nil) {
					return nil, err
				}
				select {
				case <-time.After(20 * time.Millisecond):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
		},
		close: func() { _ = c.Close() },
	}, nil
}
