package redlockbackend

import (
	"cmp"
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

func init() {
	for _, scheme := range []string{"redlock", "redlocks"} {
		locker.Register(scheme, open)
	}
}

// open serves the URLs that the package comment describes, with clients of its own.
func open(ctx context.Context, u *url.URL) (locker.Locker, error) {
	t, err := parse(u)
	var clients []*redis.Client
	if err == nil {
		for i := range t.servers {
			clients = append(clients, redis.NewClient(&t.servers[i]))
		}
		var l locker.Locker
		if l, err = newLocker(ctx, clients, t.config, func() error { return closeAll(clients) }); err == nil {
			return l, nil
		}
		_ = closeAll(clients)
	}
	return nil, &locker.Error{Op: "open", Backend: backend, Err: err}
}

func closeAll(clients []*redis.Client) error {
	var errs []error
	for _, c := range clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// target is what a URL says.
type target struct {
	config
	servers []redis.Options
}

func parse(u *url.URL) (target, error) {
	if err := refuseSentinels(u); err != nil {
		return target{}, fmt.Errorf("%w: URL: %w", locker.ErrOption, err)
	}
	p := kit.NewParams(u)
	maxTTL := p.Duration("max_ttl", defaultMaxTTL)
	t := target{config: config{
		prefix:        p.String("prefix", defaultPrefix),
		ttl:           p.Duration("ttl", usualTTL(maxTTL)),
		maxTTL:        maxTTL,
		nodeTimeout:   p.Duration("node_timeout", defaultNodeTimeout),
		newCluster:    p.Bool("new_cluster", false),
		allowEviction: p.Bool("allow_eviction", false),
	}}
	urls := p.Strings("server")
	db, poolSize, files := p.Int("db", 0), p.Int("pool_size", 0), p.TLSFiles()
	if err := p.Err(); err != nil {
		return t, err
	}
	err := t.hosts(u, db, files)
	if err == nil {
		err = t.urls(urls)
	}
	if poolSize < 0 {
		err = cmp.Or(err, errors.New("pool_size is not negative"))
	}
	if err != nil {
		return t, fmt.Errorf("%w: URL: %w", locker.ErrOption, err)
	}
	var addrs []string
	for i := range t.servers {
		o := &t.servers[i]
		addrs = append(addrs, o.Addr)
		o.PoolSize = poolSize
		// Nothing is repeated, and the driver's own time limits count.
		o.MaxRetries = -1
		o.DialerRetries = 1
		o.ContextTimeoutEnabled = true
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	}
	return t, errors.Join(t.check(), checkServers(addrs)) // a client may look up its address when it is made
}

// refuseSentinels looks for the parameter by which a URL of package redisbackend names a fail-over group.
func refuseSentinels(u *url.URL) error {
	if u.Query().Has("master_name") {
		return errSentinels
	}
	return nil
}

// hosts reads the servers that differ in their address only.
func (t *target) hosts(u *url.URL, db int, files kit.TLSFiles) error {
	if u.Opaque != "" || u.Fragment != "" {
		return errors.New("it is redlock://[USER:PASSWORD@]HOST[:PORT],…[/DB] or redlocks:// likewise, and only parameters may follow")
	}
	config, err := files.Load(u.Scheme == "redlocks", "redlocks")
	if err != nil {
		return err
	}
	db, err = database(u, db)
	if err != nil {
		return err
	}
	if u.Host == "" {
		if u.User != nil || db != 0 || config != nil {
			return errors.New("user, database and TLS belong into the URL of each server where there are such")
		}
		return nil
	}
	password, _ := u.User.Password()
	for host := range strings.SplitSeq(u.Host, ",") {
		addr, err := address(host)
		if err != nil {
			return err
		}
		t.servers = append(t.servers, redis.Options{
			Addr: addr, Username: u.User.Username(), Password: password, DB: db, TLSConfig: config.Clone(),
		})
	}
	return nil
}

func address(host string) (string, error) {
	h := url.URL{Host: host}
	port := cmp.Or(h.Port(), "6379")
	if h.Hostname() == "" || strings.Contains(h.Hostname(), ":") != strings.HasPrefix(host, "[") {
		return "", errors.New("a host is HOST or HOST:PORT; give every one a port, or none")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", errors.New("a port is from 1 to 65535")
	}
	return net.JoinHostPort(h.Hostname(), port), nil
}

// database reads the path, which is another way to give db.
func database(u *url.URL, db int) (int, error) {
	if path := strings.Trim(u.Path, "/"); path != "" {
		n, err := strconv.Atoi(path)
		switch {
		case err != nil:
			return 0, errors.New("the path is the number of a database")
		case db != 0 && db != n:
			return 0, errors.New("the path and db are different databases")
		}
		db = n
	}
	if db < 0 {
		return 0, errors.New("the number of a database is not negative")
	}
	return db, nil
}

// urls reads the servers that have a URL of their own. No error repeats it.
func (t *target) urls(urls []string) error {
	for i, text := range urls {
		o, err := parseServer(text)
		if err != nil {
			return fmt.Errorf("server %d: %w", i+1, err)
		}
		t.servers = append(t.servers, o)
	}
	return nil
}

func parseServer(text string) (o redis.Options, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Fragment != "" {
		return o, errors.New("it is redis://[USER:PASSWORD@]HOST[:PORT][/DB], rediss://, valkey:// or valkeys:// likewise, or redis+unix:///PATH, and escaped")
	}
	if err := refuseSentinels(u); err != nil {
		return o, err
	}
	p := kit.NewParams(u)
	db, files := p.Int("db", 0), p.TLSFiles()
	if err := p.Err(); err != nil {
		return o, err
	}
	o.Username = u.User.Username()
	o.Password, _ = u.User.Password()
	switch u.Scheme {
	case "redis+unix":
		if u.Host != "" || len(u.Path) < 2 {
			return o, errors.New("a socket is redis+unix:///PATH, with three slashes")
		}
		o.Network, o.Addr = "unix", u.Path
		u = &url.URL{}
	case "redis", "rediss", "valkey", "valkeys":
		if o.Addr, err = address(u.Host); err != nil {
			return o, err
		}
	default:
		return o, errors.New("its scheme is none of redis, rediss, valkey, valkeys and redis+unix")
	}
	if o.DB, err = database(u, db); err == nil {
		o.TLSConfig, err = files.Load(u.Scheme == "rediss" || u.Scheme == "valkeys", "rediss")
	}
	return o, err
}
