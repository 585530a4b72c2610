package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
)

func init() {
	for _, scheme := range redisconn.Schemes() {
		locker.Register(scheme, open)
	}
}

// open serves the URLs that the package comment describes, with a client of its own.
func open(ctx context.Context, u *url.URL) (locker.Locker, error) {
	c, options, err := parseURL(u)
	if err != nil {
		return nil, kit.OpenError(backend, err)
	}
	client := redis.NewUniversalClient(&options)
	conn := redisconn.NewConn(client, messageTimeout)
	conn.UsePool()
	l, err := newLocker(ctx, conn, c, client.Close)
	if err != nil {
		_ = client.Close()
	}
	return l, kit.OpenError(backend, err)
}

func parseURL(u *url.URL) (config, redis.UniversalOptions, error) {
	p := kit.NewParams(u)
	c := newConfig(nil)
	c.prefix = p.String("prefix", c.prefix)
	c.ttl = p.Duration("ttl", c.ttl)
	c.allowEviction = p.Bool("allow_eviction", c.allowEviction)
	params := redisconn.Params{
		DB:       p.Int("db", 0),
		PoolSize: p.Int("pool_size", 0),
		Addrs:    p.Strings("addr"),
		TLS:      p.TLSFiles(),
	}
	master, cluster := p.String("master_name", ""), p.Bool("cluster", false)
	username, password := p.String("username", ""), p.String("password", "")
	if err := p.Err(); err != nil {
		return c, redis.UniversalOptions{}, err
	}
	t, err := params.Target(u, redisconn.Form{
		Want:        redisconn.ServerURL,
		DefaultHost: "localhost",
	})
	sentinels := master != ""
	switch {
	case err != nil:
	case sentinels && cluster:
		err = errors.New("a Cluster has no Sentinels; give cluster or master_name")
	case t.Socket && (sentinels || cluster):
		err = errors.New("a socket reaches neither Sentinels nor a Cluster; give redis://HOST:PORT")
	case len(t.Addrs) > 1 && !sentinels && !cluster:
		err = errors.New("several servers are for Sentinels (with master_name) and for a Cluster (with cluster=true)")
	case (username != "" || password != "") && !sentinels:
		err = errors.New("username and password are for the servers behind Sentinels; give others before the host, as USER:PASSWORD@HOST")
	case cluster && t.DB != 0:
		err = errors.New("invalid database: want none, because a Cluster has no database but 0")
	}
	if err != nil {
		return c, redis.UniversalOptions{}, fmt.Errorf("%w: URL: %w", locker.ErrOption, err)
	}
	o := t.Universal()
	o.IsClusterMode, o.MasterName = cluster, master
	if sentinels { // the part before the host is theirs, as in the URLs of go-redis
		o.SentinelUsername, o.SentinelPassword = o.Username, o.Password
		o.Username, o.Password = username, password
	}
	return c, o, nil
}
