package main

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisPlanted are locks on Redis with a mistake each, and one without.
var redisPlanted = []library{
	plantOnRedis(noMistake),
	plantOnRedis(deadlineFromReply),
	plantOnRedis(renewalOfAny),
	plantOnRedis(releaseOfAny),
	plantOnRedis(tokenBeforeGrant),
}

func plantOnRedis(m *mistake) library {
	return plant(m, func(_ context.Context, s site) (func(name string) attempt, func(), error) {
		c := redisClient(s, s.addrs[0])
		return func(name string) attempt {
			return &redisAttempt{c: c, mistake: m, name: name, owner: rand.Text(), ttl: s.ttl}
		}, func() { _ = c.Close() }, nil
	})
}

// redisAttempt sets a key with its owner, if it doesn't exist.
type redisAttempt struct {
	c           *redis.Client
	mistake     *mistake
	name, owner string
	ttl         time.Duration
	early       int64 // a token from before the grant
}

var (
	takeScript = redis.NewScript(
		`if redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then return redis.call("INCR", KEYS[2]) end return 0`)
	extendScript = redis.NewScript(
		`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) end return 0`)
)

func (a *redisAttempt) take(ctx context.Context) (token int64, err error) {
	if a.mistake == tokenBeforeGrant && a.early == 0 {
		if a.early, err = a.c.Incr(ctx, a.name+":token").Result(); err != nil {
			return 0, err
		}
	}
	token, err = takeScript.Run(ctx, a.c, []string{a.name, a.name + ":token"}, a.owner, a.ttl.Milliseconds()).Int64()
	if token != 0 && a.mistake == tokenBeforeGrant {
		token = a.early
	}
	return token, err
}

func (a *redisAttempt) extend(ctx context.Context) (held bool, err error) {
	if a.mistake == renewalOfAny {
		return a.c.PExpire(ctx, a.name, a.ttl).Result()
	}
	n, err := extendScript.Run(ctx, a.c, []string{a.name}, a.owner, a.ttl.Milliseconds()).Int()
	return n == 1, err
}

func (a *redisAttempt) free(ctx context.Context) error {
	if a.mistake == releaseOfAny {
		return a.c.Del(ctx, a.name).Err()
	}
	return compareAndDelete(ctx, a.c, a.name, a.owner)
}
