package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// socketScheme has "redis" in it because a program may know other backends that have sockets.
const socketScheme = "redis+unix"

func init() {
	for _, scheme := range []string{"redis", "rediss", "valkey", "valkeys", socketScheme} {
		locker.Register(scheme, open)
	}
}

// open serves the URLs that the package comment describes, with a client of its own.
func open(ctx context.Context, u *url.URL) (locker.Locker, error) {
	t, err := parse(u)
	if err != nil {
		return nil, &locker.Error{Op: "open", Backend: backend, Err: err}
	}
	client := redis.NewUniversalClient(&t.options)
	l, err := newLocker(ctx, client, t.config, client.Close)
	if err != nil {
		_ = client.Close()
		return nil, &locker.Error{Op: "open", Backend: backend, Err: err}
	}
	return l, nil
}

// target is what a URL says.
type target struct {
	config
	options redis.UniversalOptions
}

func parse(u *url.URL) (target, error) {
	p := kit.NewParams(u)
	t := target{
		config: config{
			prefix:        p.String("prefix", defaultPrefix),
			ttl:           p.Duration("ttl", defaultTTL),
			allowEviction: p.Bool("allow_eviction", false),
		},
		options: redis.UniversalOptions{
			DB:            p.Int("db", 0),
			PoolSize:      p.Int("pool_size", 0),
			MasterName:    p.String("master_name", ""),
			IsClusterMode: p.Bool("cluster", false),
			Username:      p.String("username", ""),
			Password:      p.String("password", ""),

			// The driver repeats what may be repeated, and its own time limits count.
			MaxRetries:            -1,
			DialerRetries:         1,
			ContextTimeoutEnabled: true,

			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		},
	}
	addrs, files := p.Strings("addr"), p.TLSFiles()
	if err := p.Err(); err != nil {
		return t, err
	}
	err := t.complete(u, addrs)
	if err == nil {
		secure := "rediss"
		if strings.HasPrefix(u.Scheme, "valkey") {
			secure = "valkeys"
		}
		t.options.TLSConfig, err = files.Load(u.Scheme == secure, secure)
	}
	if err != nil {
		return t, fmt.Errorf("%w: URL: %w", locker.ErrOption, err)
	}
	return t, nil
}

// complete adds what doesn't stand in parameters, and refuses what doesn't fit together.
func (t *target) complete(u *url.URL, addrs []string) error {
	o := &t.options
	sentinel, cluster := o.MasterName != "", o.IsClusterMode
	switch {
	case u.Opaque != "" || u.Fragment != "":
		return errors.New("it is redis://[USER:PASSWORD@]HOST[:PORT][/DB], rediss://, valkey:// or valkeys:// likewise, or redis+unix:///PATH, and only parameters may follow")
	case sentinel && cluster:
		return errors.New("a Cluster has no Sentinels; give cluster or master_name")
	case len(addrs) > 0 && !sentinel && !cluster:
		return errors.New("addr is for Sentinels (with master_name) and for a Cluster (with cluster=true)")
	case (o.Username != "" || o.Password != "") && !sentinel:
		return errors.New("username and password are for the servers behind Sentinels; others have them before the host")
	case o.PoolSize < 0 || o.DB < 0:
		return errors.New("pool_size and db are not negative")
	}
	t.user(u.User, sentinel)
	if u.Scheme == socketScheme {
		return t.socket(u)
	}
	return t.network(u, addrs)
}

// user reads the part before the host: with Sentinels it is theirs, as in the URLs of go-redis.
func (t *target) user(user *url.Userinfo, sentinel bool) {
	password, _ := user.Password()
	if sentinel {
		t.options.SentinelUsername, t.options.SentinelPassword = user.Username(), password
		return
	}
	t.options.Username, t.options.Password = user.Username(), password
}

func (t *target) socket(u *url.URL) error {
	switch {
	case u.Host != "" || !strings.HasPrefix(u.Path, "/") || u.Path == "/":
		return errors.New("a socket is redis+unix:///PATH, with three slashes")
	case t.options.MasterName != "" || t.options.IsClusterMode:
		return errors.New("a Sentinel and a Cluster are not reached through a socket")
	}
	t.options.Addrs = []string{u.Path}
	return nil
}

func (t *target) network(u *url.URL, addrs []string) error {
	host, port := u.Hostname(), u.Port()
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = "6379"
	}
	if !isPort(port) {
		return errors.New("the port is not a number from 1 to 65535")
	}
	t.options.Addrs = []string{net.JoinHostPort(host, port)}
	for _, addr := range addrs {
		host, port, err := net.SplitHostPort(addr)
		if err != nil || host == "" || !isPort(port) {
			return errors.New("addr is HOST:PORT, where PORT is a number from 1 to 65535")
		}
		t.options.Addrs = append(t.options.Addrs, net.JoinHostPort(host, port))
	}
	if path := strings.Trim(u.Path, "/"); path != "" {
		db, err := strconv.Atoi(path)
		switch {
		case err != nil || db < 0:
			return errors.New("the path is the number of a database")
		case t.options.DB != 0 && t.options.DB != db:
			return errors.New("the path and db are different databases")
		}
		t.options.DB = db
	}
	if t.options.IsClusterMode && t.options.DB != 0 {
		return errors.New("a Cluster has no database but 0")
	}
	return nil
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}
