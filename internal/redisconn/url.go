package redisconn

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fencedlock/locker/driver/kit"
)

// socketScheme has "redis" in it because a program may know other services that have sockets.
const socketScheme = "redis+unix"

// secureSchemes maps the schemes of a server to the one with TLS.
var secureSchemes = map[string]string{
	"redis": "rediss", "rediss": "rediss", socketScheme: "rediss",
	"valkey": "valkeys", "valkeys": "valkeys",
}

// Schemes lists the schemes that the URL of a server may have.
func Schemes() []string { return []string{"redis", "rediss", "valkey", "valkeys", socketScheme} }

// ServerURL says, in errors, which URLs a server may have.
const ServerURL = "redis://[USER:PASSWORD@]HOST[:PORT][/DB], rediss://, valkey:// or valkeys:// likewise, or redis+unix:///PATH"

// maxPoolSize is the largest pool_size. A client reserves memory for all its connections when it is made.
const maxPoolSize = 100_000

// Target is what a URL says about servers that differ in their address only.
type Target struct {
	Addrs    []string // HOST:PORT of each, or the path of a socket
	Socket   bool
	User     string
	Password string
	DB       int
	PoolSize int
	TLS      *tls.Config // nil: no TLS
}

// Params are the parameters of a URL that [Params.Target] needs.
type Params struct {
	DB, PoolSize int
	Addrs        []string // of further servers: HOST:PORT
	TLS          kit.TLSFiles
}

// Form is how the URLs of a backend look.
type Form struct {
	Want        string // for errors
	Secure      string // the scheme with TLS; "": as [Schemes]
	DefaultHost string // "": a URL without a host has no servers of its own
}

// Target reads a URL:
//
//	SCHEME://[USER:PASSWORD@][HOST[:PORT],…][/DB]
//	redis+unix://[USER:PASSWORD@]/PATH
//
// Its errors don't repeat what may be secret.
func (p Params) Target(u *url.URL, form Form) (Target, error) {
	if u.Opaque != "" || u.Fragment != "" {
		return Target{}, fmt.Errorf("invalid form: want %s, and only parameters may follow", form.Want)
	}
	if p.PoolSize < 0 || p.PoolSize > maxPoolSize {
		return Target{}, fmt.Errorf("invalid pool_size: want a number from 0 to %d, for example 10", maxPoolSize)
	}
	t := Target{User: u.User.Username(), PoolSize: p.PoolSize}
	t.Password, _ = u.User.Password()
	secure := cmp.Or(form.Secure, secureSchemes[u.Scheme])
	var err error
	if t.TLS, err = p.TLS.Load(u.Scheme == secure, secure); err != nil {
		return t, err
	}
	if u.Scheme == socketScheme {
		return t, t.socket(u, p)
	}
	if t.DB, err = database(u.Path, p.DB); err != nil {
		return t, err
	}
	hosts := u.Host
	if u.Hostname() == "" && form.DefaultHost != "" {
		hosts = form.DefaultHost + u.Host // which is ":PORT", or nothing
	}
	return t, t.network(hosts, p.Addrs)
}

func (t *Target) socket(u *url.URL, p Params) (err error) {
	switch {
	case u.Host != "" || !strings.HasPrefix(u.Path, "/") || u.Path == "/":
		return errors.New("invalid socket: want redis+unix:///PATH, with three slashes")
	case len(p.Addrs) > 0:
		return errors.New("invalid addr: a server that is reached through a socket has no further addresses")
	}
	t.Addrs, t.Socket = []string{u.Path}, true
	t.DB, err = database("", p.DB)
	return err
}

func (t *Target) network(hosts string, further []string) error {
	if hosts != "" {
		for host := range strings.SplitSeq(hosts, ",") {
			addr, err := address(host)
			if err != nil {
				return err
			}
			t.Addrs = append(t.Addrs, addr)
		}
	}
	for _, addr := range further {
		host, port, err := net.SplitHostPort(addr)
		if err != nil || host == "" || !isPort(port) {
			return errors.New("invalid addr: want HOST:PORT, where PORT is a number from 1 to 65535, for example redis2:6379")
		}
		t.Addrs = append(t.Addrs, net.JoinHostPort(host, port))
	}
	return nil
}

// address reads HOST or HOST:PORT.
func address(text string) (string, error) {
	u := url.URL{Host: text}
	host, port := u.Hostname(), cmp.Or(u.Port(), "6379")
	if host == "" || strings.Contains(host, ":") != strings.HasPrefix(text, "[") {
		return "", errors.New("invalid host: want HOST or HOST:PORT, for example redis1:6379; give each host a port, or none")
	}
	if !isPort(port) {
		return "", errors.New("invalid port: want a number from 1 to 65535, for example 6379")
	}
	return net.JoinHostPort(host, port), nil
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// database reads the number of the database, which is given as the path or as a parameter.
func database(path string, param int) (int, error) {
	if param < 0 {
		return 0, errors.New("invalid db: want a number that is not negative, for example 1")
	}
	path = strings.Trim(path, "/")
	if path == "" {
		return param, nil
	}
	n, err := strconv.Atoi(path)
	switch {
	case err != nil || n < 0:
		return 0, errors.New("invalid path: want the number of a database, for example /1")
	case param != 0 && param != n:
		return 0, errors.New("the path and db are different databases; give one of them")
	}
	return n, nil
}

// idleLimit is how long a connection may be unused before the next call replaces it: a firewall may have
// forgotten it.
const idleLimit = time.Minute

// Universal returns the settings of a client of all these servers. It repeats nothing by itself,
// and contexts bound its calls.
func (t Target) Universal() redis.UniversalOptions {
	return redis.UniversalOptions{
		Addrs: t.Addrs, Username: t.User, Password: t.Password, DB: t.DB, PoolSize: t.PoolSize, TLSConfig: t.TLS,
		MaxRetries:               -1,
		DialerRetries:            1,
		ContextTimeoutEnabled:    true,
		ConnMaxIdleTime:          idleLimit,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// Servers returns the settings of a client for each of the servers.
func (t Target) Servers() []*redis.Options {
	var servers []*redis.Options
	for _, addr := range t.Addrs {
		one := t.Universal()
		one.Addrs, one.TLSConfig = []string{addr}, t.TLS.Clone()
		o := one.Simple()
		if t.Socket {
			o.Network = "unix"
		}
		servers = append(servers, o)
	}
	return servers
}
