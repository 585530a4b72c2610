package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

var _ driver.Inspector = (*redisDriver)(nil)

var inspectScript = loadScript("inspect.lua", 0)

// Inspect is one request.
func (d *redisDriver) Inspect(ctx context.Context, name string, waiters int) (locker.Status, error) {
	return d.inspect(ctx, name, 0, waiters)
}

// inspect is Inspect for a lock or a slot.
func (d *redisDriver) inspect(ctx context.Context, name string, slot, waiters int) (locker.Status, error) {
	key := lockKey(d.prefix, name, slot)
	all, err := d.inspector.inspect(ctx, d, []string{key}, waiters)
	if err != nil {
		return locker.Status{}, d.router.conn.NameServer(ctx, err, key)
	}
	all[0].Name, all[0].Slot = name, slot
	return all[0], nil
}

// inspector knows how the servers execute the script.
type inspector struct {
	writes atomic.Bool // they don't know EVALSHA_RO (before Redis 7), or don't permit it
}

// inspect asks for several locks, by their keys, in one message. The names of the Status are left
// out. The requests change nothing, so they are repeated when the script or the command isn't
// known, and when a connection has ended.
func (i *inspector) inspect(ctx context.Context, d *redisDriver, keys []string, waiters int) ([]locker.Status, error) {
	conn := d.router.conn
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	whole := false
	for try := 1; ; try++ {
		// A client that may read from replicas sends them what is marked as reading.
		readOnly := !i.writes.Load() && (conn.Cluster == nil || !conn.Cluster.Options().ReadOnly)
		cmds := make([]redis.Cmder, len(keys))
		for j, key := range keys {
			cmds[j] = conn.NewCommand(ctx, d.inspectWords(key, waiters, readOnly, whole))
		}
		err := conn.SendAside(ctx, cmds...)
		all := make([]locker.Status, len(keys))
		for j, cmd := range cmds {
			if err != nil {
				break
			}
			var result any
			if result, err = cmd.(*redisconn.Command).Result(); err == nil {
				all[j], err = parseStatus(keys[j], result)
			}
		}
		switch {
		case err == nil:
			return all, nil
		case try >= maxTries || ctx.Err() != nil:
			return nil, permissionsFor(d.prefix).Explain(err)
		case redisconn.Says(err, "NOSCRIPT"):
			whole = true
		case readOnly && redisconn.Says(err, "unknown command", "NOPERM"): // a Locker's user may have EVALSHA alone
			i.writes.Store(true)
		case !redisconn.Broken(err):
			return nil, permissionsFor(d.prefix).Explain(err)
		}
	}
}

// inspectWords are a request for one lock on the wire.
func (d *redisDriver) inspectWords(key string, waiters int, readOnly, whole bool) []any {
	db := d.router.db
	words := inspectScript.begin(nil, whole, db)
	if readOnly {
		words[0] = words[0].(string) + "_ro"
	}
	if d.router.conn.Cluster != nil {
		return append(words, 1, key, waiters)
	}
	keys := keysOf(key, "")
	words = append(words, 3, key, keys[2], keys[3], waiters)
	if db != nil {
		words = append(words, db)
	}
	return words
}

// parseStatus reads an answer of inspect.lua.
func parseStatus(key string, answer any) (locker.Status, error) {
	s := locker.Status{Key: key}
	values, _ := answer.([]any)
	if len(values) < 3 {
		return s, fmt.Errorf("invalid answer of a script: %v", answer)
	}
	pttl, ok1 := values[1].(int64)
	waiting, ok2 := values[2].(int64)
	if !ok1 || !ok2 {
		return s, fmt.Errorf("invalid answer of a script: %v", answer)
	}
	s.Waiting = int(waiting)
	if lease, held := values[0].(string); held {
		s.Holder = parseHolder(lease)
		if pttl >= 0 { // else somebody has removed its expiry
			s.Holder.Expires = time.Duration(min(max(pttl, 1), maxMillis)) * time.Millisecond
		}
	}
	for pair := range slices.Chunk(values[3:], 2) {
		if len(pair) < 2 {
			return s, fmt.Errorf("invalid answer of a script: %v", answer)
		}
		owner, _ := pair[0].(string)
		label, _ := pair[1].(string)
		waiter := locker.Party{Owner: owner}
		driver.ParseLabel(label).Describe(&waiter)
		s.Waiters = append(s.Waiters, waiter)
	}
	return s, nil
}

// maxMillis is the longest time in ms that is a Duration. 0 ms are less than one, which is shown as
// one: no expiry is another thing.
const maxMillis = int64(math.MaxInt64 / time.Millisecond)

// parseHolder reads the value of a lock's key. What somebody else has written there holds the lock
// as well, and tells nothing.
func parseHolder(value string) *locker.Party {
	l, err := parseLease(value)
	if err != nil || l.token <= 0 {
		return new(locker.Party)
	}
	// The token is the server's clock at the grant, in µs, unless that had been set back.
	holder := &locker.Party{Owner: l.owner, Token: l.token, Since: redisconn.Moment(int64(l.token)), Broken: l.breach}
	driver.ParseLabel(l.label).Describe(holder)
	return holder
}

// errLeft is the error of a list whose master is no part of the Cluster any more.
var errLeft = errors.New("the servers of the Cluster have changed during the list")

// leftCluster explains the error of a master's client that go-redis has closed.
func leftCluster(err error) error {
	if errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("%w: %w", errLeft, redisconn.Overdue(err))
	}
	return err
}
