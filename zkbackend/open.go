package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/zkconn"
)

// withTLS is the scheme of the same URL with TLS.
var withTLS = map[string]string{"zk": "zks", "zookeeper": "zookeepers"}

func init() {
	for plain, secure := range withTLS {
		locker.Register(plain, open)
		locker.Register(secure, open)
	}
}

// open serves the URLs that the package comment describes.
func open(ctx context.Context, u *url.URL) (locker.Locker, error) {
	c, err := parse(u)
	if err != nil {
		return nil, kit.OpenError(backend, err)
	}
	return newLocker(ctx, c)
}

func parse(u *url.URL) (config, error) {
	p := kit.NewParams(u)
	var opts []Option
	if ttl := p.Duration("ttl", 0); ttl > 0 {
		opts = append(opts, WithDefaultTTL(ttl))
	}
	if tick := p.Duration("tick", 0); tick > 0 {
		opts = append(opts, WithTick(tick))
	}
	acl, addrs, files := p.String("acl", ""), p.Strings("addr"), p.TLSFiles()
	if err := p.Err(); err != nil {
		return config{}, err
	}
	fail := func(err error) (config, error) {
		return config{}, fmt.Errorf("%w: URL: %w", locker.ErrOption, err)
	}
	if u.Opaque != "" || u.Fragment != "" {
		return fail(errors.New("invalid: want zk://[USER:PASSWORD@]HOST[:PORT][,…][/CHROOT][?PARAMETERS], for example zk://zk1,zk2,zk3/billing/locks"))
	}
	secure, isPlain := withTLS[u.Scheme]
	if !isPlain {
		secure = u.Scheme
	}
	tls, err := files.Load(u.Scheme == secure, secure)
	if err != nil {
		return fail(err)
	}
	if tls != nil {
		opts = append(opts, WithDialer(zkconn.TLSDialer(tls)))
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
			return fail(errors.New("invalid user: want a name and a password, for example zk://joe:PASSWORD@zk1"))
		}
		opts = append(opts, WithDigest(u.User.Username(), password))
	}
	if path := strings.TrimSuffix(u.Path, "/"); path != "" {
		opts = append(opts, WithChroot(path))
	}
	servers := addrs
	if u.Host != "" {
		servers = append(strings.Split(u.Host, ","), addrs...) // several, as in ZooKeeper's connect strings
	} else if len(servers) == 0 {
		servers = []string{"localhost"}
	}
	return newConfig(servers, opts), nil
}

// permissions are zkCli's letters.
var permissions = map[rune]int32{
	'c': zk.PermCreate, 'd': zk.PermDelete, 'r': zk.PermRead, 'w': zk.PermWrite, 'a': zk.PermAdmin,
}

// parseACL reads entries as in zkCli, SCHEME:ID:PERMISSIONS, separated by commas. An id may have
// colons.
func parseACL(text string) ([]zk.ACL, error) {
	invalid := errors.New("invalid acl: want SCHEME:ID:PERMISSIONS[,…] with permissions out of cdrwa, for example auth::cdrwa")
	var list []zk.ACL
	for entry := range strings.SplitSeq(text, ",") {
		scheme, rest, ok := strings.Cut(entry, ":")
		i := strings.LastIndexByte(rest, ':')
		if !ok || i < 0 || scheme == "" || i+1 == len(rest) {
			return nil, invalid
		}
		acl := zk.ACL{Scheme: scheme, ID: rest[:i]}
		for _, letter := range rest[i+1:] {
			p, known := permissions[letter]
			if !known {
				return nil, invalid
			}
			acl.Perms |= p
		}
		list = append(list, acl)
	}
	return list, nil
}
