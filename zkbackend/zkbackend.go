// Package zkbackend keeps locks in a ZooKeeper ensemble, 3.5 or later. It is opened by URL, or by [New] with the addresses
// of servers.
//
//	l, err := locker.Open(ctx, "zk://user:password@zk1,zk2,zk3/billing/locks?ttl=20s")
//
// # What it promises
//
// A lock is a node, and who holds it or waits for it has an ephemeral sequential node below. The fencing token is that
// node's czxid, the number of the transaction that made it: no later lease has a smaller one, whatever restarts or
// fails, because the servers agree on transactions. (The sequence number is no token: it begins anew when the lock's node
// has been removed.) The nodes of a Locker hang on its session; when the holder falls silent, the servers end the
// session, and the nodes go. The loss of a minority of the servers is survived. So these locks are for correctness
// ([locker.Correctness]), with the token checked where the data lives, because no lock can stop a holder that was paused.
//
// A lease is trusted until its deadline and no longer. That is a promise about ZooKeeper as much as about this package:
// which answers of the servers prove how long a session will last is in proof.go, with the reasons.
//
// # Sessions
//
// A Locker has a session of its own for each TTL in use, up to eight, each with a connection and four goroutines, until
// Close or until another TTL needs its place. The first is opened by New. When the servers have ended one, its leases
// are lost, its waiters queue again, and the next acquisition opens another. Something is read on a session two or three times
// a tick, whether there are leases or not; leases are renewed together, a thousand in a request.
//
// A session is also over when nothing was answered on it for its timeout, which is longer than the TTL; or, while it may have nodes,
// no write. An answer that only confirms the session on a new connection doesn't count. So a client that the servers hear, and that
// doesn't hear them, or gets answers to its reads alone, doesn't keep its locks; and a Locker goes on when the ensemble's data was lost or
// restored from a backup, or when another ensemble answers at the same addresses. Waiters queue again then, once a
// session can be opened.
//
// # Waiting
//
// Waiters of all Lockers are served first come, first served. Each watches the node before its own and no other, so a
// release wakes one of them. A holder watches its node too, from half a tick after it has got the lock at the latest; so
// it learns at once that somebody has deleted it.
//
// # URLs
//
//	zk://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/CHROOT]
//	zookeeper://…                                               the same
//	zks://…                                                     the same over TLS
//
// HOST is localhost and PORT 2181 if not given. USER and PASSWORD are credentials of the scheme "digest"; nodes that are
// made belong to this user alone then. The locks are below CHROOT, which is made if it isn't there; without it, below
// /locker.
//
// Name each server of the ensemble. A host name that has several addresses counts as one server: when the server at one of them
// accepts connections and doesn't answer, nothing makes the Locker try the next address of that name. Where no more servers are
// named than a minority has, such as one of three, the Locker promises [locker.ToleranceNone].
//
// The parameters, all optional:
//
//	ttl      of leases that don't ask for one: 30s, or the longest that the servers allow
//	addr     HOST:PORT of a further server; may be repeated
//	tick     the servers' tickTime: see [WithTick]
//	acl      who may do what with the nodes, SCHEME:ID:PERMISSIONS[,…] as in zkCli: see [WithACL]
//	ca_file  authorities for the servers' certificates, PEM: those of the system
//	cert_file, key_file   the client's own certificate, PEM
//	server_name   expected in the servers' certificates: the host
//	skip_verify   true: take any certificate
//
// Where one of several hosts has a port, the last one must have one as well: a URL is refused otherwise. With zks:// the port
// is the servers' secureClientPort. With [New], TLS is a matter of [WithDialer].
//
// # TTL
//
// The servers' tick decides which TTLs can be had: from half a tick, and 100 ms, to twenty ticks less 3 s at the default
// tick of 2 s, so 37 s; an ensemble with a longer maxSessionTimeout allows more. Others are refused. The servers end the session of a
// dead holder up to three and a half ticks later than the TTL at that tick; see [Guarantees].
//
// # What is checked when it is opened
//
// That a server answers and has a quorum, what sessions it allows (which tells the tick), and that nodes may be made and
// deleted below the chroot. All of it takes about ten requests.
package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/zkconn"
)

const (
	backend     = "zookeeper"
	defaultTTL  = 30 * time.Second
	defaultRoot = "/locker"
	defaultTick = 2 * time.Second  // of ZooKeeper
	openLimit   = 10 * time.Second // of all that opening asks the servers
)

// Option changes what [New] makes.
type Option func(*config)

type config struct {
	servers []string
	root    string
	ttl     time.Duration // 0: the default, or less where the servers allow less
	tick    time.Duration // 0: it is found out
	dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	auth    []auth
	acl     []zk.ACL
}

func newConfig(servers []string, opts []Option) config {
	c := config{servers: servers, root: defaultRoot, dial: new(net.Dialer).DialContext}
	for _, opt := range opts {
		opt(&c)
	}
	if c.acl == nil && len(c.auth) > 0 {
		c.acl = zk.AuthACL(zk.PermAll)
	}
	if c.acl == nil {
		c.acl = zk.WorldACL(zk.PermAll)
	}
	return c
}

// WithChroot sets the node below which the locks are; without it, "/locker". All who shall exclude each other use the
// same. It is made if it isn't there.
func WithChroot(path string) Option { return func(c *config) { c.root = path } }

// WithDefaultTTL sets the TTL of leases that don't ask for one; without it, it is 30 s, or the longest that the servers allow
// if that is shorter.
func WithDefaultTTL(d time.Duration) Option { return func(c *config) { c.ttl = d } }

// WithTick tells the servers' tickTime. Without it, it is found out, which works unless the shortest and the longest
// session were both set by hand, to less than two and twenty ticks. Too small a tick makes leases that may not be safe. Where the
// servers' shortest session (minSessionTimeout) is longer than two of these ticks, a dead holder's lock is free later, and the Locker's
// Guarantees say by how much.
func WithTick(d time.Duration) Option { return func(c *config) { c.tick = d } }

// WithDialer sets what connects with a server, for TLS or a network of one's own. Its context bounds the dialling only.
func WithDialer(dial func(ctx context.Context, network, addr string) (net.Conn, error)) Option {
	return func(c *config) { c.dial = dial }
}

// WithDigest authenticates sessions by a user's name and password. Nodes that are made are this user's alone then, unless
// [WithACL] says otherwise.
func WithDigest(user, password string) Option { return WithAuth("digest", user+":"+password) }

// WithAuth authenticates sessions in any scheme that the servers know. It may be given several times.
func WithAuth(scheme, credentials string) Option {
	return func(c *config) { c.auth = append(c.auth, auth{scheme, credentials}) }
}

// WithACL sets who may do what with the nodes that are made; without it, everybody may do everything, or who has
// authenticated itself in the same way.
func WithACL(acl []zk.ACL) Option { return func(c *config) { c.acl = acl } }

// New makes a Locker on the ensemble of which these are servers, each HOST or HOST:PORT. It opens sessions of its own, and
// ends them when it is closed. It asks the servers whether they fit (see the package comment), for up to 10 s.
//
// ctx covers the opening alone, not the Locker's life.
func New(ctx context.Context, servers []string, opts ...Option) (locker.Locker, error) {
	l, err := newLocker(ctx, newConfig(servers, opts))
	if err != nil {
		return nil, &locker.Error{Op: "open", Backend: backend, Err: err}
	}
	return l, nil
}

func newLocker(ctx context.Context, c config) (locker.Locker, error) {
	d, ttl, err := newDriver(ctx, c)
	if err != nil {
		return nil, err
	}
	return driver.New(d, driver.Config{Backend: backend, TTL: ttl, Features: locker.FeatureTTL}), nil
}

// newDriver returns a driver that has a session, and the TTL of that.
func newDriver(ctx context.Context, c config) (*zkDriver, time.Duration, error) {
	servers, err := zkconn.WithPorts(c.servers)
	if err = errors.Join(err, checkRoot(c.root), checkPositive("tick", c.tick), checkPositive("TTL", c.ttl)); err != nil {
		return nil, 0, err
	}
	d := &zkDriver{
		servers: servers, dial: c.dial, auth: c.auth, acl: c.acl, root: c.root, tick: c.tick,
		sessions: make(map[time.Duration]*opening), all: make(map[*session]struct{}),
	}
	limited, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	ttl, err := d.begin(limited, c.ttl)
	if err != nil {
		_ = d.Close(limited)
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", driver.ContextError(ctx), err)
		}
		return nil, 0, err
	}
	d.ttl = ttl
	return d, ttl, nil
}

// checkPositive lets zero through, which means that it was not given.
func checkPositive(what string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%w: the %s is negative", locker.ErrOption, what)
	}
	return nil
}

// begin finds out what the servers are like, and opens the session of leases that don't ask for a TTL.
func (d *zkDriver) begin(ctx context.Context, asked time.Duration) (ttl time.Duration, err error) {
	shortest, longest, err := d.limits(ctx)
	if err != nil {
		return 0, err
	}
	if d.tick == 0 {
		d.tick = tickOf(shortest, longest)
	}
	d.margins = marginsOf(d.tick)
	d.longest = d.margins.longestTTL(longest)
	ttl = roundUp(asked)
	if asked == 0 {
		ttl = min(defaultTTL, d.longest)
	}
	if err := d.checkTTL(ttl); err != nil {
		return 0, err
	}
	s, err := d.connect(ctx, newSession(d, ttl))
	if err != nil {
		return 0, d.tooLong(ttl, err)
	}
	o := &opening{done: make(chan struct{}), trying: s, s: s}
	close(o.done)
	d.sessions[ttl] = o
	voting, err := s.inspect(ctx)
	if err != nil {
		return 0, explain(err)
	}
	d.guarantees = d.found(voting, shortest)
	return ttl, nil
}

// inspect tries what acquisitions need, and returns how many servers vote; 0: that may not be read. ctx bounds the waiting; what was
// asked ends with the session.
//
//nolint:contextcheck // the client knows no contexts
func (s *session) inspect(ctx context.Context) (voting int, err error) {
	counted, failed := make(chan int, 1), make(chan error, 1)
	go func() {
		if err := s.check(); err != nil {
			failed <- err
			return
		}
		counted <- s.voting()
	}()
	select {
	case voting = <-counted:
		return voting, nil
	case err = <-failed:
		return 0, err
	case <-ctx.Done():
		return 0, s.unanswered()
	}
}

// check tries what acquisitions need, on a node that is gone again in the same request.
func (s *session) check() error {
	if err := s.makeRoot(); err != nil {
		return err
	}
	path := s.d.root + "/" + driver.NewOwner()
	_, err := s.conn.Multi(
		&zk.CreateRequest{Path: path, Acl: s.d.acl, Flags: zk.FlagEphemeral},
		&zk.DeleteRequest{Path: path, Version: -1},
	)
	return err
}
