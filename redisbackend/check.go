package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/redisclient"
)

// What the servers must be like is found out when a Locker is opened, and not with the first lock that is lost: they
// are of a version that can carry the scripts out, they keep their keys, and the client is of the right kind.

// oldest is the first version that the scripts were made for.
var oldest = []int{6, 2}

// facts is what a server says of itself; what it doesn't say is empty.
type facts struct {
	version string
	mode    string // standalone, cluster or sentinel
	policy  string // maxmemory-policy: what it drops when its memory is short
}

func (f *facts) read(info string) {
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "redis_version":
			f.version = value
		case "redis_mode":
			f.mode = value
		case "maxmemory_policy":
			f.policy = value
		}
	}
}

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
	var f facts
	var err error
	if left := s.call(ctx, func() { f, err = askFacts(ctx, c) }); left != nil {
		return left
	}
	if err != nil {
		return err
	}
	return f.check(s.cluster != nil, allowEviction)
}

// askFacts also finds out whether PING is permitted, which a subscription needs. INFO need not be.
func askFacts(ctx context.Context, c redis.Cmdable) (facts, error) {
	var f facts
	if err := c.Ping(ctx).Err(); err != nil {
		if redisclient.Says(err, "NOPERM") {
			err = fmt.Errorf("a permission is missing (ACL: +ping): %w", err)
		}
		return f, err
	}
	for _, section := range []string{"server", "memory"} {
		info, err := c.Info(ctx, section).Result()
		if err != nil && !redisclient.Says(err, "NOPERM") {
			return f, err
		}
		f.read(info)
	}
	return f, nil
}

func (f facts) check(cluster, allowEviction bool) error {
	err := errors.Join(f.checkVersion(), f.checkMode(cluster))
	if err == nil && !allowEviction {
		err = f.checkEviction()
	}
	return err
}

// checkVersion lets versions pass that can't be read: the probe decides about those.
func (f facts) checkVersion() error {
	var version []int
	for part := range strings.SplitSeq(f.version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil
		}
		version = append(version, n)
	}
	if slices.Compare(version, oldest) < 0 {
		return fmt.Errorf("%w: Redis %s is older than %d.%d", errors.ErrUnsupported, f.version, oldest[0], oldest[1])
	}
	return nil
}

// checkMode refuses a client that was made for another kind of server.
func (f facts) checkMode(cluster bool) error {
	switch {
	case f.mode == "sentinel":
		return fmt.Errorf("%w: this is a Sentinel, which knows where the locks are but has none; "+
			"give the client the name of the master (in a URL: master_name)", locker.ErrOption)
	case f.mode == "cluster" && !cluster:
		return fmt.Errorf("%w: this is one server of a Redis Cluster; use a client for a Cluster (in a URL: cluster=true)",
			locker.ErrOption)
	}
	return nil
}

// checkEviction refuses a server that may drop a lock while somebody holds it.
func (f facts) checkEviction() error {
	const allow = "or accept that (AllowEviction; in a URL: allow_eviction=true)"
	switch f.policy {
	case "noeviction":
		return nil
	case "":
		return fmt.Errorf("%w: whether the server drops locks when its memory is short can't be read from INFO memory; "+
			"permit that command (ACL: +info), %s", locker.ErrOption, allow)
	}
	return fmt.Errorf("%w: the server's maxmemory-policy is %s, so it drops locks when its memory is short; "+
		"set it to noeviction, %s", locker.ErrOption, f.policy, allow)
}
