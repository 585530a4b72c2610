// Package zkbackend keeps locks in a ZooKeeper ensemble, 3.5 or later. It is opened by URL, or by
// [New] with the addresses of servers.
//
//	l, err := locker.Open(ctx, "zk://user:password@zk1,zk2,zk3/billing/locks?ttl=20s")
//
// # What it promises
//
// A lock is a node, and its holder and each waiter have an ephemeral sequential node below it. The
// fencing token is the czxid of the holder's node, the number of the transaction that created it:
// no later lease has a smaller one, whatever restarts or fails, because the servers agree on
// transactions. (The sequence number is no token: it starts from 0 again when the lock's node has
// been removed.) The nodes of a Locker are attached to its session. When the holder falls silent,
// the servers end the session and remove the nodes. The loss of a minority of the servers is
// survived. So these locks are for correctness ([locker.Correctness]), with the token checked where
// the data is, because no lock can stop a holder that was paused.
//
// A lease is trusted until its deadline and no longer. That is a promise about ZooKeeper as much as
// about this package: proof.go says which answers of the servers prove how long a session will
// last, and why.
//
// # Sessions
//
// A Locker has a session for each TTL in use, at most eight, each with a connection and four
// goroutines, until Close or until another TTL needs its place. New opens the first one. When the
// servers have ended a session, its leases are lost, its waiters queue again, and the next
// acquisition opens a new session. Something is read on a session two or three times a tick, and
// every 0.75 s at a longer tick than 2 s, whether there are leases or not; leases are renewed
// together, up to a thousand in a request.
//
// A session is also over when no request on it was answered for its timeout, which is longer than
// the TTL, or, while it may have nodes, no write. An answer that only confirms the session on a new
// connection doesn't count. So a client that the servers hear, and that receives nothing from them,
// or answers to its reads alone, doesn't keep its locks. And a Locker goes on when the ensemble's
// data was lost or restored from a backup, or when another ensemble answers at the same addresses.
// Waiters queue again then, once a session can be opened. What a session that is over may have left
// on the servers is removed on any session that is open.
//
// # Waiting
//
// Waiters of all Lockers are served first come, first served. Each one watches the node before its
// own and no other, so a release wakes one of them. A holder's node is watched, too, 3/8 of a tick
// after the grant at the latest, and 0.75 s at most. So the holder learns at once that somebody has
// deleted it, or has marked it ([locker.Break]). After a connect own nodes are watched again, 64 in
// each round trip; until that is done, holders learn of it that much later, new ones as well.
//
// # URLs
//
//	zk://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/CHROOT][?PARAMETERS]
//	zookeeper://…                                               the same
//	zks://…, zookeepers://…                                     the same with TLS
//
// HOST is localhost and PORT 2181 if not given. USER and PASSWORD are credentials of the scheme
// "digest"; then the nodes that are created belong to this user alone. The locks are below CHROOT,
// which is created if it isn't there; without it, below /locker.
//
// Name each server of the ensemble, and no server of another one: a lock that is held on one
// ensemble is free on another. A host name that has several addresses counts as one server: if
// the server at one of them accepts connections and doesn't answer, nothing makes the Locker try
// the next address of that name. If no more servers are named than a minority has, such as one of
// three, the Locker promises [locker.ToleranceNone].
//
// The parameters, all optional, each with its default after the colon if it has one:
//
//	ttl      of leases that don't ask for one: 30s, or the longest that the servers allow
//	addr     HOST:PORT of a further server; may be repeated
//	tick     the servers' tickTime, at least 10ms: see WithTick
//	acl      who may do what with the nodes, SCHEME:ID:PERMISSIONS[,…] as in zkCli: see WithACL
//	ca_file  authorities for the servers' certificates, PEM: the system's
//	cert_file, key_file   the client's own certificate, PEM
//	server_name   expected in the servers' certificates: the host
//	skip_verify   true: accept any certificate
//
// If one of several hosts has a port, the last one must have one as well; the URL is refused
// otherwise. With TLS the port is the servers' secureClientPort. For TLS with [New] there is
// [WithDialer].
//
// # TTL
//
// The servers' tick decides which TTLs are possible: from half a tick, and 100 ms, to twenty ticks
// less 3 s at the default tick of 2 s, so 37 s; an ensemble with a longer maxSessionTimeout allows
// more. Others are refused. The servers end the session of a dead holder up to three and a half
// ticks later than the TTL at that tick, counted from the moment at which its requests or their
// answers begin to be lost; see [Guarantees]. (Counted from the last sign of life that the servers
// have heard, it is up to three ticks, as in docs/zookeeper.md.)
//
// # What is checked when it is opened
//
// That a server answers and has a quorum, which sessions it allows (which reveals the tick), and
// that nodes may be created and deleted below the chroot. That takes about ten requests. Then each
// other address is asked, with five requests and for up to a second, whether its server is of the
// same ensemble. If one isn't, New fails and names an address of each. An address that doesn't
// answer is no failure.
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
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/zkconn"
)

const (
	backend       = "zookeeper"
	defaultTTL    = 30 * time.Second
	defaultChroot = "/locker"
	defaultTick   = 2 * time.Second // ZooKeeper's
)

// Option changes what [New] makes. With an invalid value New fails: the error matches [locker.ErrOption].
type Option func(*config)

type config struct {
	servers []string
	chroot  chroot
	ttl     time.Duration // 0: the default, or less if the servers allow less
	tick    time.Duration // 0: it is found out
	dial    zkconn.Dialer
	auth    []zkconn.Credentials
}

func newConfig(servers []string, opts []Option) config {
	c := config{servers: servers, chroot: chroot{path: defaultChroot}, dial: new(net.Dialer).DialContext}
	for _, opt := range opts {
		opt(&c)
	}
	if c.chroot.acl == nil && len(c.auth) > 0 {
		c.chroot.acl = zk.AuthACL(zk.PermAll)
	}
	if c.chroot.acl == nil {
		c.chroot.acl = zk.WorldACL(zk.PermAll)
	}
	return c
}

// check refuses what can't work, without I/O.
func (c config) check() error {
	invalid := func(what, want string) error {
		return fmt.Errorf("%w: invalid %s: want %s", locker.ErrOption, what, want)
	}
	errs := []error{checkChroot(c.chroot.path)}
	if c.tick != 0 && c.tick < minTick { // 0: it was not given
		errs = append(errs, invalid("tick", fmt.Sprintf("at least %v, for example 2s", minTick)))
	}
	if c.ttl < 0 {
		errs = append(errs, invalid("TTL", "more than zero, for example 20s"))
	}
	if c.dial == nil {
		errs = append(errs, invalid("dialer", "a function, for example new(net.Dialer).DialContext"))
	}
	if len(c.chroot.acl) == 0 {
		errs = append(errs, invalid("ACL", "at least one entry, for example zk.AuthACL(zk.PermAll)"))
	}
	return errors.Join(errs...)
}

// WithChroot sets the node below which the locks are; without it, "/locker". Every Locker that
// shares these locks must use the same chroot. It is created if it isn't there.
func WithChroot(path string) Option { return func(c *config) { c.chroot.path = path } }

// WithDefaultTTL sets the TTL of leases that don't ask for one; without it, it is 30 s, or the
// longest that the servers allow if that is shorter. It is rounded up to milliseconds, and must be
// one of those that the servers' tick allows: see the package comment.
func WithDefaultTTL(d time.Duration) Option { return func(c *config) { c.ttl = d } }

// WithTick sets the servers' tickTime. Without it, the tick is found out, which works unless the
// operator has set both the shortest and the longest session, to less than two and twenty ticks.
// Too small a tick makes leases that may not be safe. A tick below 10 ms is refused, because
// something is read on each session every 3/8 of a tick. If the servers' shortest session
// (minSessionTimeout) is longer than two of these ticks, a dead holder's lock is free later, and the
// Locker's Guarantees say by how much.
func WithTick(d time.Duration) Option { return func(c *config) { c.tick = d } }

// WithDialer sets what connects with a server, for TLS or a special network. Its context covers the
// dialling alone, and dial must return when that ends: opening a Locker waits for it. It must not be
// nil.
func WithDialer(dial func(ctx context.Context, network, addr string) (net.Conn, error)) Option {
	return func(c *config) { c.dial = dial }
}

// WithDigest is WithAuth("digest", "user:password"): it authenticates sessions by a user's name and
// password. Then the nodes that are created are this user's alone, unless [WithACL] says otherwise.
func WithDigest(user, password string) Option { return WithAuth("digest", user+":"+password) }

// WithAuth authenticates sessions in any scheme that the servers know. It may be given several
// times.
func WithAuth(scheme, credentials string) Option {
	return func(c *config) {
		c.auth = append(c.auth, zkconn.Credentials{Scheme: scheme, Secret: credentials})
	}
}

// WithACL sets who may do what with the nodes that are created. Without it everybody may do
// everything, or, if there are credentials, every client with the same credentials. An ACL without
// an entry is refused.
func WithACL(acl []zk.ACL) Option {
	return func(c *config) { c.chroot.acl = append(make([]zk.ACL, 0, len(acl)), acl...) } // nil only without WithACL
}

// New makes a Locker on the ensemble that has these servers, each HOST or HOST:PORT. It opens
// sessions of its own, and ends them when it is closed. It asks the servers whether they fit (see
// the package comment), for up to 10 s.
//
// ctx covers the opening alone, not the Locker's life.
func New(ctx context.Context, servers []string, opts ...Option) (locker.Locker, error) {
	return newLocker(ctx, newConfig(servers, opts))
}

func newLocker(ctx context.Context, c config) (locker.Locker, error) {
	d, err := newDriver(ctx, c)
	if err != nil {
		return nil, kit.OpenError(backend, err)
	}
	// ObeysContext isn't declared: a request of go-zookeeper has no context, and ends only with its
	// answer or its connection. For such a request a wait and Release wait.
	return driver.New(d, driver.Config{TTL: d.ttl, Features: locker.FeatureTTL | locker.FeatureSlots}), nil
}
