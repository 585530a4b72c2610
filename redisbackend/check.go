package redisbackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/redisconn"
)

// What the servers must be like is found out when a Locker is opened, and not with the first lock that is lost: they
// are of a version that can carry the scripts out, they keep their keys, and the client is of the right kind.

// checkAll looks at all servers.
func (s *server) checkAll(ctx context.Context, allowEviction bool) error {
	if s.cluster == nil {
		return s.check(ctx, s.client, allowEviction)
	}
	var err error
	left := s.call(ctx, func() {
		err = s.cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
			return s.check(ctx, c, allowEviction)
		})
	})
	if left != nil {
		return left
	}
	return err
}

func (s *server) check(ctx context.Context, c redis.Cmdable, allowEviction bool) error {
	var f redisconn.Facts
	var err error
	if left := s.call(ctx, func() {
		if err = redisconn.Ping(ctx, c); err != nil {
			return
		}
		if f, err = redisconn.AskFacts(ctx, c); redisconn.Says(err, "NOPERM") {
			err = nil // INFO need not be permitted; see CheckEviction
		}
	}); left != nil {
		return overdue(left, addressOf(c))
	}
	if err != nil {
		return overdue(err, addressOf(c))
	}
	if err := checkFacts(f, s.cluster != nil, allowEviction); err != nil || s.failsOver() {
		return err // where roles change, the client finds the new master
	}
	return f.CheckRole()
}

// checkFacts judges what a server says of itself.
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
