package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

// A server that doesn't fit is found when a Locker is opened, and not when the first lock is lost.
// The server must have a version that can execute the scripts, keep its keys, and permit all
// commands; and the client must be of the right kind.

// open checks the servers, and finds out what can be promised.
func (d *redisDriver) open(ctx context.Context) error {
	conn := d.router.conn
	failsOver := conn.Cluster != nil || redisconn.UsesSentinels(conn.Client)
	if err := d.checkAll(ctx, failsOver); err != nil {
		return err
	}
	if failsOver {
		d.guarantees.Tolerance = locker.ToleranceFailover
	}
	channel, pushes := d.grants.Channel(), false
	if conn.Cluster == nil {
		var err error
		if pushes, err = d.seesSubscription(ctx, channel); err != nil {
			return err
		}
	}
	if !pushes {
		channel, d.grants = "", nil
		d.guarantees.Order, d.guarantees.Waiting = locker.OrderNone, locker.WaitingPolled
		d.guarantees.Expiry.Slack = pollSlack
		d.guarantees.Inspection = locker.InspectionHolder
	}
	nobody := driver.NewOwner()
	r := request{script: probeScript, key: lockKey(d.prefix, "probe "+nobody, 0), owner: nobody, ttl: time.Second, channel: channel}
	return conn.Probe(ctx, permissionsFor(d.prefix), func(whole bool) []any { return r.words(whole, d.router.db) })
}

// checkAll checks each server.
func (d *redisDriver) checkAll(ctx context.Context, failsOver bool) error {
	conn := d.router.conn
	if conn.Cluster == nil {
		return d.check(ctx, conn.Client, failsOver)
	}
	var err error
	if left := conn.Call(ctx, func() {
		err = conn.Cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
			return d.check(ctx, c, failsOver)
		})
	}); left != nil {
		return left
	}
	return err
}

func (d *redisDriver) check(ctx context.Context, client redis.Cmdable, failsOver bool) error {
	f, err := d.router.conn.AskFacts(ctx, client) // INFO need not be permitted; see CheckEviction
	if err != nil {
		return redisconn.OverdueFrom(redisconn.AddressOf(client), err)
	}
	isCluster := d.router.conn.Cluster != nil
	if err := checkFacts(f, isCluster, d.allowEviction); err != nil || isCluster { // of which only masters are asked
		return err
	}
	err = f.CheckRole()
	if err == nil || !failsOver {
		return err
	}
	return d.checkRoleAgain(ctx)
}

// checkRoleAgain checks the role of a server behind Sentinels that was a replica, on a new connection:
// a failover may be under way. A client with ReplicaOnly gets a replica once more. It may get another
// one for each connection, and each of them would grant the same lock if it can be written to.
func (d *redisDriver) checkRoleAgain(ctx context.Context) error {
	conn := d.router.conn
	f, err := conn.AskFactsAgain(ctx)
	if err != nil {
		return redisconn.OverdueFrom(redisconn.AddressOf(conn.Client), err)
	}
	if err := f.CheckRole(); err != nil {
		return fmt.Errorf("%w (a client with Sentinels finds it by itself, but not with ReplicaOnly)", err)
	}
	return nil
}

// checkFacts judges what a server says about itself.
func checkFacts(f redisconn.Facts, cluster, allowEviction bool) error {
	err := errors.Join(f.CheckVersion(), checkMode(f.Mode, cluster))
	if err == nil && !allowEviction {
		err = f.CheckEviction()
	}
	return err
}

// checkMode refuses a client that was made for another kind of server.
func checkMode(mode string, cluster bool) error {
	switch {
	case mode == "sentinel":
		return fmt.Errorf("%w: this is a Sentinel, which knows where the locks are but has none; "+
			"give the client the name of the master (in a URL: master_name)", locker.ErrOption)
	case mode == "cluster" && !cluster:
		return fmt.Errorf("%w: this is one server of a Redis Cluster; use a client for a Cluster (in a URL: cluster=true)",
			locker.ErrOption)
	}
	return nil
}

// seesSubscription reports whether the server that executes the scripts sees a subscription of this
// client. It doesn't where the client subscribes on a replica. An error says that nobody can
// subscribe.
func (d *redisDriver) seesSubscription(ctx context.Context, channel string) (bool, error) {
	conn := d.router.conn
	var seen map[string]int64
	err := conn.TrySubscribe(ctx, permissionsFor(d.prefix), channel, messageTimeout, func() (err error) {
		seen, err = conn.Client.PubSubNumSub(ctx, channel).Result()
		return err
	})
	if err != nil {
		return false, err
	}
	return seen[channel] > 0, nil
}
