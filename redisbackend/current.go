package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

var _ driver.TokenReader = (*redisDriver)(nil)

// readScript reads a lock's key. It is a script because a client may have been told to read from replicas, and those are
// behind.
var readScript = redis.NewScript(`return redis.call('GET', KEYS[1])`)

// CurrentToken reads the lock's key.
func (d *redisDriver) CurrentToken(ctx context.Context, name string) (locker.Token, error) {
	ctx, cancel := context.WithTimeout(ctx, maxLimit)
	defer cancel()
	var value string
	var err error
	if left := d.server.call(ctx, func() {
		value, err = readScript.Run(ctx, d.server.client, []string{lockKey(d.prefix, name)}).Text()
	}); left != nil {
		return 0, overdue(left, d.server.address(ctx, lockKey(d.prefix, name)))
	}
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	if err != nil {
		return 0, overdue(err, d.server.address(ctx, lockKey(d.prefix, name)))
	}
	return parseLease(value)
}

// parseLease reads the value of a lock's key: see args.lua.
func parseLease(value string) (locker.Token, error) {
	_, text, _ := strings.Cut(value, " ")
	token, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the lock's key holds %q, which is no lease", value)
	}
	return locker.Token(token), nil
}
