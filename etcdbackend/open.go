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
)

func init() {
	for _, scheme := range []string{"etcd", "etcds"} {
		locker.Register(scheme, open)
	}
}

// open serves the URLs that the package comment describes, with a client of its own.
func open(ctx context.Context, u *url.URL) (locker.Locker, error) {
	t, err := parse(u)
	if err != nil {
		return nil, &locker.Error{Op: "open", Backend: backend, Err: err}
	}
	l, err := t.open(ctx)
	if err != nil {
		return nil, &locker.Error{Op: "open", Backend: backend, Err: err}
	}
	return l, nil
}

// target is what a URL says.
type target struct {
	config
	client clientv3.Config
}

// open makes the client, which may ask for a token at once. ctx covers that alone, the client's own context its life.
func (t *target) open(ctx context.Context) (locker.Locker, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	defer stop()
	var login firstLogin
	t.client.Context, t.client.DialTimeout = life, openLimit
	t.client.DialOptions = append(t.client.DialOptions, grpc.WithChainUnaryInterceptor(login.intercept))
	client, err := clientv3.New(t.client)
	if err != nil {
		end()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", driver.ContextError(ctx), overdue(err))
		}
		return nil, hint(t.silent(err))
	}
	login.over.Store(true)
	done := func() error {
		defer end()
		return client.Close()
	}
	l, err := newLocker(ctx, client, t.config, done)
	if err != nil {
		_ = done()
		return nil, err
	}
	return l, nil
}

// silent is the error of a login, with the addresses where nobody has answered.
func (t *target) silent(err error) error {
	if !isOverdue(err) {
		return err
	}
	var hosts []string
	for _, addr := range t.client.Endpoints {
		hosts = append(hosts, hostOf(addr))
	}
	return fmt.Errorf("%w from %s", errNoAnswer, strings.Join(hosts, ", "))
}

func parse(u *url.URL) (target, error) {
	p := kit.NewParams(u)
	t := target{
		config: config{
			prefix: defaultPrefix,
			ttl:    p.Duration("ttl", defaultTTL),
		},
		client: clientv3.Config{
			DialKeepAliveTime:    10 * time.Second,
			DialKeepAliveTimeout: 2 * time.Second,
			Logger:               zap.NewNop(), // errors are returned
		},
	}
	addrs, files := p.Strings("addr"), p.TLSFiles()
	if err := p.Err(); err != nil {
		return t, err
	}
	err := t.complete(u, addrs)
	if err == nil {
		t.client.TLS, err = files.Load(u.Scheme == "etcds", "etcds")
	}
	if files.ServerName != "" { // the client would expect the host, whatever its TLS settings say
		t.client.DialOptions = append(t.client.DialOptions, grpc.WithAuthority(files.ServerName))
	}
	if err != nil {
		return t, fmt.Errorf("%w: URL: %w", locker.ErrOption, err)
	}
	return t, nil
}

// complete adds what doesn't stand in parameters, and refuses what doesn't fit together.
func (t *target) complete(u *url.URL, addrs []string) error {
	if u.Opaque != "" || u.Fragment != "" {
		return errors.New("it is etcd://[USER:PASSWORD@]HOST[:PORT][,…][/PREFIX], or etcds:// likewise, and only parameters may follow")
	}
	if err := t.user(u.User); err != nil {
		return err
	}
	if prefix := strings.TrimPrefix(u.Path, "/"); prefix != "" {
		t.prefix = strings.TrimSuffix(prefix, "/") + "/"
	}
	scheme := "http://"
	if u.Scheme == "etcds" {
		scheme = "https://"
	}
	hosts := strings.Split(u.Host, ",")
	if slices.Contains(hosts, "") && len(hosts) > 1 {
		return errors.New("between the commas a host is missing")
	}
	for _, host := range hosts {
		h := url.URL{Host: host}
		addr, err := join(cmp.Or(h.Hostname(), "localhost"), cmp.Or(h.Port(), "2379"))
		if err != nil {
			return errors.New("a host is HOST or HOST:PORT")
		}
		t.client.Endpoints = append(t.client.Endpoints, scheme+addr)
	}
	for _, addr := range addrs {
		host, port, err := net.SplitHostPort(addr)
		if err == nil {
			addr, err = join(host, port)
		}
		if err != nil {
			return errors.New("addr is HOST:PORT")
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

// user reads the part before the host. etcd knows users with passwords only; one without would silently be nobody.
func (t *target) user(user *url.Userinfo) error {
	password, _ := user.Password()
	if (user.Username() == "") != (password == "") {
		return errors.New("a user has a name and a password")
	}
	t.client.Username, t.client.Password = user.Username(), password
	return nil
}
