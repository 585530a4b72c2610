package redisbackend

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

var _ driver.TokenReader = (*redisDriver)(nil)

// readScript reads a lock's key. It is a script because a client may be set to read from replicas,
// whose data is older.
var readScript = redis.NewScript(readText)

// readSelected is readScript for a client of a caller's.
var readSelected = redis.NewScript(selecting(readText).Text)

const readText = `return redis.call('GET', KEYS[1])`

// CurrentToken reads the key of the lock or the slot.
func (d *redisDriver) CurrentToken(ctx context.Context, name string, slot int) (locker.Token, error) {
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	key, conn := lockKey(d.prefix, name, slot), d.router.conn
	var value string
	var err error
	if left := conn.CallAside(ctx, func() {
		if db := d.router.db; db != nil {
			value, err = readSelected.Run(ctx, conn.Client, []string{key}, db).Text()
			return
		}
		value, err = readScript.Run(ctx, conn.Client, []string{key}).Text()
	}); left != nil {
		return 0, conn.NameServer(ctx, left, key)
	}
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	if err != nil {
		return 0, conn.NameServer(ctx, err, key)
	}
	held, err := parseLease(value)
	return held.token, err
}
