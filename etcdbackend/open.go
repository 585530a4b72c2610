package etcdbackend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/etcdconn"
)

const schemeTLS = "etcds"

func init() {
	for _, scheme := range []string{"etcd", schemeTLS} {
		locker.Register(scheme, open)
	}
}

// open serves the URLs that the package comment describes, with a client of its own.
func open(ctx context.Context, u *url.URL) (locker.Locker, error) {
	t, err := parse(u)
	if err != nil {
		return nil, kit.OpenError(backend, err)
	}
	l, err := t.open(ctx)
	return l, kit.OpenError(backend, err)
}

// target is what a URL says.
type target struct {
	config
	client clientv3.Config
}

// open makes the client, which may log in at once. ctx covers that alone, the client's own context
// covers its life.
func (t *target) open(ctx context.Context) (locker.Locker, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	defer stop()
	t.client.Context, t.client.DialTimeout = life, openLimit
	client, err := etcdconn.NewClient(t.client)
	if err != nil {
		end()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", driver.ContextError(ctx), etcdconn.Overdue(err))
		}
		return nil, hint(t.noLogin(err))
	}
	closeClient := func() error {
		defer end()
		return client.Close()
	}
	l, err := newLocker(ctx, client, t.config, closeClient)
	if err != nil {
		_ = closeClient()
		return nil, err
	}
	return l, nil
}

// noLogin returns the error of a login, with the addresses if none has answered.
func (t *target) noLogin(err error) error {
	if !etcdconn.IsOverdue(err) {
		return err
	}
	var hosts []string
	for _, addr := range t.client.Endpoints {
		hosts = append(hosts, etcdconn.HostOf(addr))
	}
	return fmt.Errorf("%w from %s", locker.ErrNoAnswer, strings.Join(hosts, ", "))
}

func parse(u *url.URL) (target, error) {
	p := kit.NewParams(u)
	t := target{
		config: newConfig(nil),
		client: clientv3.Config{
			DialKeepAliveTime:    10 * time.Second,
			DialKeepAliveTimeout: 2 * time.Second,
			Logger:               zap.NewNop(), // errors are returned
		},
	}
	t.prefix = p.String("prefix", t.prefix)
	t.ttl = p.Duration("ttl", t.ttl)
	addrs, files := p.Strings("addr"), p.TLSFiles()
	if err := p.Err(); err != nil {
		return t, err
	}
	err := t.complete(u, addrs)
	if err == nil {
		t.client.TLS, err = files.Load(u.Scheme == schemeTLS, schemeTLS)
	}
	if files.ServerName != "" { // the client would expect the host, whatever its TLS settings say
		t.client.DialOptions = append(t.client.DialOptions, grpc.WithAuthority(files.ServerName))
	}
	if err != nil {
		return t, fmt.Errorf("%w: URL: %w", locker.ErrOption, err)
	}
	return t, t.check() // before the client logs in
}

// complete adds what is not in parameters.
func (t *target) complete(u *url.URL, addrs []string) error {
	switch {
	case u.Opaque != "" || u.Fragment != "":
		return errors.New("invalid: want etcd://[USER:PASSWORD@]HOST[:PORT][,…][?PARAMETERS], for example etcd://h1,h2,h3?ttl=30s")
	case u.Path != "" && u.Path != "/":
		return errors.New("invalid path: want none; the prefix of the keys is a parameter, for example ?prefix=billing/")
	}
	if err := t.setUser(u.User); err != nil {
		return err
	}
	scheme := "http://"
	if u.Scheme == schemeTLS {
		scheme = "https://"
	}
	hosts := strings.Split(u.Host, ",")
	if slices.Contains(hosts, "") && len(hosts) > 1 {
		return errors.New("invalid hosts: a host is missing between commas; want HOST[:PORT],…, for example h1,h2,h3")
	}
	for _, host := range hosts {
		h := url.URL{Host: host}
		addr, err := join(cmp.Or(h.Hostname(), "localhost"), cmp.Or(h.Port(), "2379"))
		if err != nil {
			return errors.New("invalid host: want HOST or HOST:PORT, for example etcd1:2379")
		}
		t.client.Endpoints = append(t.client.Endpoints, scheme+addr)
	}
	for _, addr := range addrs {
		host, port, err := net.SplitHostPort(addr)
		if err == nil {
			addr, err = join(host, port)
		}
		if err != nil {
			return errors.New("invalid addr: want HOST:PORT, for example etcd2:2379")
		}
		t.client.Endpoints = append(t.client.Endpoints, scheme+addr)
	}
	return nil
}

// join makes an address that can be the host of a URL.
func join(host, port string) (string, error) {
	addr := net.JoinHostPort(host, port)
	u, err := url.Parse("http://" + addr)
	if err != nil || host == "" || port == "" || u.Host != addr || u.Hostname() != host {
		return "", errors.New("not an address")
	}
	return addr, nil
}

// setUser reads the part before the host. etcd knows users with passwords only; a user without one
// would be ignored without an error.
func (t *target) setUser(user *url.Userinfo) error {
	password, _ := user.Password()
	if (user.Username() == "") != (password == "") {
		return errors.New("invalid user: want a name and a password, for example etcd://joe:password@host")
	}
	t.client.Username, t.client.Password = user.Username(), password
	return nil
}
