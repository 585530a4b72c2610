package redlockbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

// Servers that don't fit are found when a Locker is opened, and not when the first lock is lost.

// openTimeout bounds all requests when a Locker is opened.
const openTimeout = 10 * time.Second

// open checks all servers at the same time. A server that can't be reached is one of a minority
// that may fail. A server that is reached and doesn't fit is a mistake.
func (d *redlock) open(ctx context.Context) error {
	runs := make([]string, len(d.nodes))
	if err := d.eachNode(ctx, func(ctx context.Context, i int, n *node) (err error) {
		runs[i], err = d.check(ctx, n)
		return err
	}); err != nil {
		return err
	}
	for i, run := range runs {
		if same := slices.Index(runs, run); run != "" && same < i {
			return fmt.Errorf("%w: %s and %s are one server: want servers that are independent of each other", locker.ErrOption,
				d.nodes[same].name(), d.nodes[i].name())
		}
	}
	return d.join(ctx)
}

// eachNode returns the errors of servers that don't fit. If there are none, and no majority can be
// reached, it returns the errors of those that can't be reached.
func (d *redlock) eachNode(ctx context.Context, check func(context.Context, int, *node) error) error {
	unfit, away := make(map[int]error), make(map[int]error)
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, n := range d.nodes {
		all.Add(1)
		d.spawn(func() {
			defer all.Done()
			err := check(ctx, i, n)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
			case isUnreachable(err):
				away[i] = redisconn.Overdue(err)
			default:
				unfit[i] = err
			}
		})
	}
	all.Wait()
	reached := len(d.nodes) - len(away)
	switch {
	case len(unfit) > 0:
		return d.failure("a server doesn't fit", unfit)
	case reached < majority(len(d.nodes)):
		err := d.failure(fmt.Sprintf("%d of %d servers can be reached, and %d must", reached, len(d.nodes), majority(len(d.nodes))), away)
		for i := range d.nodes {
			if cause, ok := away[i]; !ok || errors.As(cause, new(redis.Error)) {
				return err // one server answers, so TLS isn't the reason
			}
		}
		return d.hint(err, away)
	}
	return nil
}

// isUnreachable reports whether err is the error of a server that doesn't answer, or is about to start.
func isUnreachable(err error) bool {
	var reply redis.Error
	return !isLasting(err) && (!errors.As(err, &reply) || redisconn.Says(err, "LOADING", "BUSY", "max number of clients"))
}

// check checks one server, and returns which process it is.
func (d *redlock) check(ctx context.Context, n *node) (run string, err error) {
	limit := max(3*d.serverTimeout, time.Second)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	f, err := n.conn.AskFacts(ctx, n.client)
	if err == nil {
		err = f.Denied
	}
	if err == nil {
		err = checkFacts(f, d.allowEviction)
	}
	permissions := permissionsFor(d.prefix)
	if err == nil {
		err = n.conn.TrySubscribe(ctx, permissions, d.waitlist.channel, limit, nil)
	}
	if err == nil {
		err = n.conn.Probe(ctx, permissions, func(whole bool) []any {
			key := lockKey(d.prefix, "probe "+driver.NewOwner(), 0)
			return append(probeScript.Begin(nil, whole), 2, key, memoryKey(d.prefix), d.waitlist.channel, n.client.Options().DB)
		})
	}
	return f.Run, err
}

// checkFacts judges what a server says about itself.
func checkFacts(f redisconn.Facts, allowEviction bool) error {
	if err := f.CheckVersion(); err != nil {
		return err
	}
	switch {
	case f.Mode == "sentinel":
		return fmt.Errorf("%w: this is a Sentinel, which has no locks; give the address of a server", locker.ErrOption)
	case f.Mode == "cluster":
		return fmt.Errorf("%w: this is one server of a Redis Cluster; Redlock is for servers that are independent", locker.ErrOption)
	case f.Run == "" || f.History == "" || f.Role == "":
		return fmt.Errorf("%w: INFO has no run_id, role or master_replid, by which servers are told apart and know that they have lost data",
			errors.ErrUnsupported)
	}
	err := f.CheckRole()
	if err == nil && !allowEviction {
		err = f.CheckEviction()
	}
	return err
}

// hint adds to err that only one side may speak TLS, if that can be the reason.
func (d *redlock) hint(err error, away map[int]error) error {
	for i, n := range d.nodes {
		usesTLS := redisconn.UsesTLS(n.client)
		switch {
		case !redisconn.MayBeTLS(away[i], usesTLS):
		case usesTLS:
			return fmt.Errorf("%w; a server that doesn't speak TLS needs redlock:// or redis://", err)
		default:
			return fmt.Errorf("%w; a server that speaks TLS needs redlocks:// or rediss://", err)
		}
	}
	return err
}
