package redisconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
)

// Facts is what a server says of itself in INFO; what it doesn't say is empty.
type Facts struct {
	Run     string // the process
	Version string // of Redis; Valkey names the one that it is compatible with
	Mode    string // standalone, cluster or sentinel
	Policy  string // maxmemory-policy: what it drops when its memory is short
	Role    string // master, or slave: a replica
	History string // the replication id: another one after each promotion
}

// oldest is the first version that the scripts were made for.
var oldest = []int{6, 2}

// Read takes in a section of INFO.
func (f *Facts) Read(info string) {
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "run_id":
			f.Run = value
		case "redis_version":
			f.Version = value
		case "redis_mode", "server_mode": // Valkey has the second name from 8.0 on, unless it shall look like Redis
			f.Mode = value
		case "maxmemory_policy":
			f.Policy = value
		case "role":
			f.Role = value
		case "master_replid":
			f.History = value
		}
	}
}

// Ping finds out whether PING is permitted, which a subscription needs.
func Ping(ctx context.Context, c redis.Cmdable) error {
	return permitted(c.Ping(ctx).Err(), "+ping")
}

// AskFacts reads INFO. After an error the facts are what was read all the same: not all of it may be permitted.
func AskFacts(ctx context.Context, c redis.Cmdable) (Facts, error) {
	var f Facts
	var denied error
	for _, section := range []string{"server", "memory", "replication"} {
		info, err := c.Info(ctx, section).Result()
		if err = permitted(err, "+info"); err != nil && !Says(err, "NOPERM") {
			return f, err
		}
		if err != nil {
			denied = err
		}
		f.Read(info)
	}
	return f, denied
}

// permitted says what is missing where err is that of a missing permission.
func permitted(err error, missing string) error {
	if Says(err, "NOPERM") {
		return Denied(err, missing)
	}
	return err
}

// Denied says what an operator has to permit.
func Denied(err error, missing string) error {
	return fmt.Errorf("a permission is missing (ACL: %s): %w", missing, err)
}

// CheckVersion refuses a server that is too old. It lets versions pass that can't be read: trying the scripts decides about those.
func (f Facts) CheckVersion() error {
	var version []int
	for part := range strings.SplitSeq(f.Version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil
		}
		version = append(version, n)
	}
	if slices.Compare(version, oldest) < 0 {
		return fmt.Errorf("%w: Redis %s is older than %d.%d", errors.ErrUnsupported, f.Version, oldest[0], oldest[1])
	}
	return nil
}

// CheckRole refuses a replica, also one that can be written to: what is written there is gone when it follows its master
// the next time. It lets servers pass that don't say what they are: only a replica that can be written to has to be known.
func (f Facts) CheckRole() error {
	if f.Role == "" || f.Role == "master" {
		return nil
	}
	return fmt.Errorf("%w: the server is a replica (role:%s), and locks are made on its master", locker.ErrOption, f.Role)
}

// CheckEviction refuses a server that may drop a lock while somebody holds it.
func (f Facts) CheckEviction() error {
	const allow = "or accept that (AllowEviction; in a URL: allow_eviction=true)"
	switch f.Policy {
	case "noeviction":
		return nil
	case "":
		return fmt.Errorf("%w: whether the server drops locks when its memory is short can't be read from INFO memory; "+
			"permit that command (ACL: +info), %s", locker.ErrOption, allow)
	}
	return fmt.Errorf("%w: the server's maxmemory-policy is %s, so it drops locks when its memory is short; "+
		"set it to noeviction, %s", locker.ErrOption, f.Policy, allow)
}
