package fenceredis_test

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence/fenceredis"
)

// A critical section whose data is in Redis. Each command is executed in one step with the check of
// the token. The braces put the mark and the data into one slot of a Cluster.
func ExampleMark() {
	_ = func(ctx context.Context, l locker.Locker, client *redis.Client) error {
		mark := fenceredis.Mark{Client: client, Key: "{invoice:42}:fence"}
		return locker.Do(ctx, l, "invoices/42", func(ctx context.Context, lease locker.Lease) error {
			if err := mark.Claim(ctx, lease.Token()); err != nil {
				return err // matches fence.ErrStale: a newer holder was here
			}
			status, err := mark.Do(ctx, lease.Token(), "HGET", "{invoice:42}", "status")
			if err != nil && !errors.Is(err, redis.Nil) { // redis.Nil: a new invoice has no status
				return err
			}
			if status == "paid" {
				return nil
			}
			_, err = mark.Do(ctx, lease.Token(), "HSET", "{invoice:42}", "status", "paid")
			return err
		})
	}
}

var addUpTo = fenceredis.NewScript(`
	local sum = redis.call('INCRBY', KEYS[1], ARGV[1])
	if sum > tonumber(ARGV[2]) then redis.call('SET', KEYS[1], ARGV[2]) end
	return redis.call('GET', KEYS[1])`)

// A script of one's own runs after the claim, in the same step.
func ExampleMark_Run() {
	_ = func(ctx context.Context, client *redis.Client, token locker.Token) (any, error) {
		mark := fenceredis.Mark{Client: client, Key: "{stock:7}:fence"}
		return mark.Run(ctx, token, addUpTo, []string{"{stock:7}"}, 5, 100)
	}
}
