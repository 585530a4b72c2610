package redlockbackend

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
)

func init() {
	for _, scheme := range []string{"redlock", "redlocks"} {
		locker.Register(scheme, open)
	}
}

// open serves the URLs that the package comment describes, with clients of its own.
func open(ctx context.Context, u *url.URL) (locker.Locker, error) {
	c, servers, err := parseURL(u)
	var clients []*redis.Client
	if err == nil {
		for _, o := range servers {
			clients = append(clients, redis.NewClient(o))
		}
		var l locker.Locker
		if l, err = newLocker(ctx, clients, c, func() error { return closeAll(clients) }); err == nil {
			return l, nil
		}
		_ = closeAll(clients)
	}
	return nil, kit.OpenError(backend, err)
}

func closeAll(clients []*redis.Client) error {
	var errs []error
	for _, c := range clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// parseURL returns what a URL says, and the settings of a client for each server.
func parseURL(u *url.URL) (config, []*redis.Options, error) {
	if err := refuseSentinels(u); err != nil {
		return config{}, nil, fmt.Errorf("%w: URL: %w", locker.ErrOption, err)
	}
	p := kit.NewParams(u)
	c := newConfig(nil)
	c.prefix = p.String("prefix", c.prefix)
	c.maxTTL = p.Duration("max_ttl", c.maxTTL)
	c.ttl = p.Duration("ttl", usualTTL(c.maxTTL))
	c.serverTimeout = p.Duration("server_timeout", c.serverTimeout)
	c.newCluster = p.Bool("new_cluster", c.newCluster)
	c.allowEviction = p.Bool("allow_eviction", c.allowEviction)
	params := redisconn.Params{
		DB:       p.Int("db", 0),
		PoolSize: p.Int("pool_size", 0),
		Addrs:    p.Strings("addr"),
		TLS:      p.TLSFiles(),
	}
	urls := p.Strings("server")
	if err := p.Err(); err != nil {
		return c, nil, err
	}
	t, err := params.Target(u, redisconn.Form{
		Want:   "redlock://[USER:PASSWORD@]HOST[:PORT],…[/DB] or redlocks:// likewise",
		Secure: "redlocks",
	})
	if err == nil && len(t.Addrs) == 0 && (u.User != nil || t.DB != 0 || t.TLS != nil) {
		err = errors.New("user, database and TLS are for servers that are given by address; others have them in the URL of each server")
	}
	servers := t.Servers()
	for i, text := range urls {
		if err != nil {
			break
		}
		var o *redis.Options
		if o, err = parseServer(text, params.PoolSize); err != nil { // which never repeats the URL
			err = fmt.Errorf("server %d: %w", i+1, err)
		}
		servers = append(servers, o)
	}
	if err != nil {
		return c, nil, fmt.Errorf("%w: URL: %w", locker.ErrOption, err)
	}
	var addrs []string
	for _, o := range servers {
		addrs = append(addrs, o.Addr)
	}
	return c, servers, errors.Join(c.check(), checkServers(addrs)) // a client may look up its address when it is made
}

// refuseSentinels looks for the parameter by which a URL of package redisbackend names a fail-over
// group.
func refuseSentinels(u *url.URL) error {
	if u.Query().Has("master_name") {
		return errSentinels
	}
	return nil
}

// parseServer reads the URL of a server that has its own.
func parseServer(text string, poolSize int) (*redis.Options, error) {
	const want = redisconn.ServerURL
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("invalid URL: want %s, and escaped", want)
	case !slices.Contains(redisconn.Schemes(), u.Scheme):
		return nil, fmt.Errorf("invalid scheme: want one of %s", strings.Join(redisconn.Schemes(), ", "))
	}
	if err := refuseSentinels(u); err != nil {
		return nil, err
	}
	p := kit.NewParams(u)
	params := redisconn.Params{DB: p.Int("db", 0), PoolSize: poolSize, TLS: p.TLSFiles()}
	if err := p.Err(); err != nil {
		return nil, err
	}
	t, err := params.Target(u, redisconn.Form{Want: want + ", and escaped"})
	if err != nil {
		return nil, err
	}
	if len(t.Addrs) != 1 {
		return nil, errors.New("invalid host: want one HOST or HOST:PORT, for example redis1:6379")
	}
	return t.Servers()[0], nil
}
