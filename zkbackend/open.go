package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/zkconn"
)

func init() {
	for _, scheme := range []string{"zk", "zookeeper", schemeTLS} {
		locker.Register(scheme, open)
	}
}

const schemeTLS = "zks"

// open serves the URLs that the package comment describes.
func open(ctx context.Context, u *url.URL) (locker.Locker, error) {
	c, err := parse(u)
	if err == nil {
		var l locker.Locker
		if l, err = newLocker(ctx, c); err == nil {
			return l, nil
		}
	}
	return nil, &locker.Error{Op: "open", Backend: backend, Err: err}
}

func parse(u *url.URL) (config, error) {
	addrs, u := takeAddrs(u)
	p := kit.NewParams(u)
	p.String("addr", "") // is known
	var opts []Option
	if ttl := p.Duration("ttl", 0); ttl > 0 {
		opts = append(opts, WithDefaultTTL(ttl))
	}
	if tick := p.Duration("tick", 0); tick > 0 {
		opts = append(opts, WithTick(tick))
	}
	acl, files := p.String("acl", ""), p.TLSFiles()
	if err := p.Err(); err != nil {
		return config{}, err
	}
	fail := func(err error) (config, error) {
		return config{}, fmt.Errorf("%w: URL: %w", locker.ErrOption, err)
	}
	if u.Opaque != "" || u.Fragment != "" {
		return fail(errors.New("it is zk://[USER:PASSWORD@]HOST[:PORT][,…][/CHROOT], zks:// likewise, and only parameters may follow"))
	}
	secure, err := files.Load(u.Scheme == schemeTLS, schemeTLS)
	if err != nil {
		return fail(err)
	}
	if secure != nil {
		opts = append(opts, WithDialer(zkconn.TLSDialer(secure)))
	}
	if acl != "" {
		list, err := parseACL(acl)
		if err != nil {
			return fail(err)
		}
		opts = append(opts, WithACL(list))
	}
	if u.User != nil {
		password, _ := u.User.Password()
		if u.User.Username() == "" || password == "" {
			return fail(errors.New("a user has a name and a password"))
		}
		opts = append(opts, WithDigest(u.User.Username(), password))
	}
	if root := strings.TrimSuffix(u.Path, "/"); root != "" {
		opts = append(opts, WithChroot(root))
	}
	servers := addrs
	if host := u.Host; host != "" {
		servers = append(strings.Split(host, ","), addrs...)
	} else if len(servers) == 0 {
		servers = []string{"localhost"}
	}
	return newConfig(servers, opts), nil
}

// takeAddrs takes further addresses out of the query: the one parameter that may be given more than once.
func takeAddrs(u *url.URL) ([]string, *url.URL) {
	query, err := url.ParseQuery(u.RawQuery)
	addrs := query["addr"]
	if err != nil || len(addrs) == 0 {
		return nil, u // what can't be parsed is refused later
	}
	delete(query, "addr")
	rest := *u
	rest.RawQuery = query.Encode()
	return addrs, &rest
}
