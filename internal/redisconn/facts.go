package redisconn

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// Facts is what a server says about itself in INFO. What it doesn't say is empty.
type Facts struct {
	Run     string // the process
	Version string // of Redis; Valkey names the one that it is compatible with
	Mode    string // standalone, cluster or sentinel
	Policy  string // maxmemory-policy: what it drops when its memory is full
	Role    string // master, or slave: a replica
	History string // the replication id: another one after each promotion
	Denied  error  // INFO, or some of it, isn't permitted
}

// Read reads a section of INFO.
func (f *Facts) Read(info string) {
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "run_id":
			f.Run = value
		case "redis_version":
			f.Version = value
		case "redis_mode", "server_mode": // Valkey has the second name from 8.0 on, unless it is to look like Redis
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

// AskFacts asks a server, which client reaches, for its facts. It also checks that PING is
// permitted, which a [Listener] needs. Where INFO isn't permitted there is no error, but
// Facts.Denied says so.
func (c *Conn) AskFacts(ctx context.Context, client redis.Cmdable) (Facts, error) {
	var f Facts
	var err error
	if left := c.Call(ctx, func() { f, err = askFacts(ctx, client) }); left != nil {
		return Facts{}, left
	}
	return f, err
}

// AskFactsAgain is AskFacts of the client's server, on a new connection. For that a client with Sentinels
// asks them which server it is. A client of a Cluster has no such server.
func (c *Conn) AskFactsAgain(ctx context.Context) (Facts, error) {
	client, ok := c.Client.(*redis.Client)
	if !ok {
		return Facts{}, errors.ErrUnsupported
	}
	o := *client.Options()
	o.Protocol, o.PoolSize, o.MinIdleConns = 2, 2, 0 // 2, as in NewPool
	other := redis.NewClient(&o)
	defer other.Close()
	return c.AskFacts(ctx, other)
}

func askFacts(ctx context.Context, client redis.Cmdable) (Facts, error) {
	var f Facts
	if err := client.Ping(ctx).Err(); err != nil {
		return f, permitted(err, "ping")
	}
	for _, section := range []string{"server", "memory", "replication"} { // some of them may be permitted
		info, err := client.Info(ctx, section).Result()
		if Says(err, "NOPERM") {
			f.Denied = denied(err, "+info")
		} else if err != nil {
			return f, err
		}
		f.Read(info)
	}
	return f, nil
}

// CheckVersion refuses a server that is too old. It accepts a version that can't be read: whether
// the server fits is decided by trying the scripts.
func (f Facts) CheckVersion() error { return kit.CheckVersion("Redis", f.Version, 6, 2) }

// CheckRole refuses a replica, even one that can be written to: what is written there is lost at
// the next resynchronisation with its master. It accepts a server that doesn't say what it is. A
// replica that can't be written to fails the probe.
func (f Facts) CheckRole() error {
	if f.Role == "" || f.Role == "master" {
		return nil
	}
	return fmt.Errorf("%w: the server is a replica (role:%s), and keys are written on its master; give the master's address", locker.ErrOption, f.Role)
}

// CheckEviction refuses a server that may drop a key before the key expires.
func (f Facts) CheckEviction() error {
	const accept = "or accept it with AllowEviction (in a URL: allow_eviction=true)"
	switch f.Policy {
	case "noeviction":
		return nil
	case "":
		return fmt.Errorf("%w: INFO memory can't be read, so the server may drop keys when its memory is full; "+
			"permit that command (ACL: +info), %s", locker.ErrOption, accept)
	}
	return fmt.Errorf("%w: invalid maxmemory-policy %s, by which the server drops keys when its memory is full: "+
		"want noeviction on the server, %s", locker.ErrOption, f.Policy, accept)
}
