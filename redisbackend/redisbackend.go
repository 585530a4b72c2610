// Package redisbackend keeps locks on a Redis or Valkey server, 6.2 or later, also with Sentinels
// and in a Cluster. It is opened by URL, or by [New] with a client of the caller's.
//
//	l, err := locker.Open(ctx, "redis://user:password@redis.example:6379/0?prefix=billing:&ttl=30s")
//
// # What it promises
//
// One server decides, in scripts that it executes as a whole. A lease is a key with a TTL. Its
// holder renews it, and learns by that when an operator has deleted it. Tokens are max(last + 1,
// the server's clock in µs). So they rise over restarts, failovers and the loss of all data. There
// are two exceptions: the clock was set back, or a replica takes over whose clock shows an earlier
// time.
//
// What the server forgets it can grant again. A restart without persistence, a failover to a
// replica that had missed the latest writes, FLUSHALL, and a clock that jumps ahead let a second
// holder in. The first holder believes in its lease until its next renewal. It takes longer where a
// former master lives on with some of the clients, cut off from the replica that has taken its
// place: both grant locks and renew them until the split is over, or until the former master
// refuses writes (min-replicas-to-write, which Redis applies to scripts from 7.0 on; in a Cluster
// after cluster-node-timeout). The same holds for products with several active masters. So without
// fencing these locks are for efficiency ([locker.Efficiency]). If the token is checked where the
// data lives, no stale write gets in as long as tokens rise.
//
// # Waiting
//
// Waiters of all Lockers are in a queue on the server, first come, first served. The release of a
// lock makes the first live waiter the next holder in the same step, and notifies its Locker: one
// round trip from holder to holder, and nobody can take the lock in between. A Locker that has to
// wait keeps one connection for these messages, with one goroutine, from its first wait until
// Close. A message that gets lost is found at the next renewal. Without waiting there are no
// goroutines but go-redis' and the engine's.
//
// In a Cluster waiters poll, without an order. They also do so where a client's subscriptions lead
// to another server than its scripts (a replica). The Locker's Guarantees say so. They don't say that
// new waiters of a Locker poll, too, and have no place in the queue, until its subscription is
// confirmed and when it has broken. They get a place when it is confirmed. While a slot of
// the Cluster moves to another server, leases in it are renewed and released, but nobody can
// acquire a lock in it: see docs/redis.md.
//
// # URLs
//
//	redis://[USER:PASSWORD@]HOST[:PORT][/DB]        one server; HOST is localhost and PORT 6379 if not given
//	rediss://…                                      the same over TLS
//	redis+unix://[USER:PASSWORD@]/PATH?db=DB        through a socket
//	redis://HOST:26379/DB?master_name=NAME          through Sentinels; USER:PASSWORD are then theirs
//	redis://HOST:PORT?cluster=true                  a Cluster
//
// These are the URLs of go-redis, except for unix://, which could be any backend's: it is
// redis+unix:// here. valkey:// and valkeys:// mean the same as redis:// and rediss://. The
// parameters, all optional, each with its default after the colon if it has one:
//
//	prefix           what keys and channels begin with: "locker:"
//	ttl              of leases that don't ask for one: 30s
//	db               the database, instead of the path
//	addr             HOST:PORT of a further Sentinel or server of the Cluster; may be repeated
//	master_name      what the Sentinels call the servers
//	username, password   for the servers that the Sentinels name
//	cluster          true: a Cluster
//	pool_size        connections at most for requests, to each server: 10 for each CPU
//	allow_eviction   true: see AllowEviction
//	ca_file          authorities for the server's certificate, PEM: the system's
//	cert_file, key_file   the client's own certificate, PEM
//	server_name      expected in the server's certificate: the host
//	skip_verify      true: accept any certificate
//
// # What is checked when it is opened
//
// That the server answers, has a version that is supported, is not a replica, executes the scripts,
// and permits this user what they do: an error names what is missing. That its maxmemory-policy is
// noeviction, because any other policy drops locks when memory is full ([AllowEviction] accepts
// that). All of it takes about ten requests.
//
// # Clients
//
// A Locker of one server that was opened by URL can interrupt a request when its caller gives up,
// so it sends requests on the goroutines of their callers. With Sentinels, in a Cluster and with a
// client that New is given it sends them on other goroutines, which costs some microseconds:
// nothing interrupts a call of such a client.
//
// A client that New is given keeps its settings, and other parts of a program may use it at the
// same time. Its retries don't apply here: requests are repeated where the driver knows that it is
// harmless. A program may have a connection of the client select another database: the scripts select
// the one of the client's options first, which needs the permission (+select). Set
// ContextTimeoutEnabled if you can. Otherwise a request to a server that doesn't
// answer may keep its connection until the client's own timeouts.
//
// go-redis writes lines of its own about connections to standard error. It has one logger for the
// whole program, so this package leaves it alone. A program turns it off with Disable of
// github.com/redis/go-redis/v9/logging, or gives it another one with [redis.SetLogger], before it
// makes a client or opens a Locker: neither is safe while clients are used. What matters to a
// Locker's caller comes back as an error.
package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
)

const (
	backend       = "redis"
	defaultTTL    = 30 * time.Second
	defaultPrefix = "locker:"
	openTimeout   = 10 * time.Second // of all requests when it is opened

	// pollSlack is how much later than the end of a lease a waiter that polls may ask.
	pollSlack = 500 * time.Millisecond
)

// Option changes what [New] makes. With an invalid value New fails: the error matches [locker.ErrOption].
type Option func(*config)

type config struct {
	prefix        string
	ttl           time.Duration
	allowEviction bool
	db            any // that the scripts select: see script.begin
}

func newConfig(opts []Option) config {
	c := config{prefix: defaultPrefix, ttl: defaultTTL}
	for _, opt := range opts {
		opt(&c)
	}
	return c
}

// configFor is newConfig for a client of the caller's.
func configFor(client redis.UniversalClient, opts []Option) config {
	c := newConfig(opts)
	c.db = databaseOf(client)
	return c
}

// WithPrefix sets what the keys and channels of the locks begin with; without it, "locker:". Every
// Locker that shares these locks must use the same prefix. One with a brace or a control character is
// refused.
func WithPrefix(prefix string) Option { return func(c *config) { c.prefix = prefix } }

// WithDefaultTTL sets the TTL of leases that don't ask for one; without it, it is 30 s. It is
// rounded up to milliseconds, and refused below 10 ms.
func WithDefaultTTL(d time.Duration) Option { return func(c *config) { c.ttl = d } }

// AllowEviction accepts a server that may drop locks when its memory is full (a maxmemory-policy
// other than noeviction), and a server whose policy can't be read because INFO is not permitted.
func AllowEviction() Option { return func(c *config) { c.allowEviction = true } }

// New makes a Locker that uses a client of the caller's. The caller closes the client after the
// Locker. New checks whether the servers fit (see the package comment), for up to 10 s. A
// [redis.Ring], which moves keys to other servers when one fails, and a [redis.AutoPipeliner] are
// refused with an error that matches [errors.ErrUnsupported], also if a client embeds one. A nil
// client is refused with an error that matches [locker.ErrOption].
//
// ctx covers the opening alone, not the Locker's life.
func New(ctx context.Context, client redis.UniversalClient, opts ...Option) (locker.Locker, error) {
	if err := redisconn.CheckClient(client, "the client"); err != nil {
		return nil, kit.OpenError(backend, err)
	}
	switch client.(type) {
	case interface{ SetAddrs(addrs map[string]string) }: // a Ring, or what has one in it
		return nil, kit.OpenError(backend, fmt.Errorf("%w: a redis.Ring moves locks to other servers when one fails", errors.ErrUnsupported))
	case autoPipeliner:
		return nil, kit.OpenError(backend,
			fmt.Errorf("%w: a redis.AutoPipeliner delays requests; give the client that it was made from", errors.ErrUnsupported))
	}
	l, err := newLocker(ctx, redisconn.NewConn(client, messageTimeout), configFor(client, opts), nil)
	return l, kit.OpenError(backend, err)
}

// autoPipeliner is a [redis.AutoPipeliner], or what has one in it.
type autoPipeliner interface {
	Submit(ctx context.Context, cmd redis.Cmder) redis.AutoFuture
}

func newLocker(ctx context.Context, conn *redisconn.Conn, c config, done func() error) (locker.Locker, error) {
	if err := errors.Join(redisconn.CheckPrefix(c.prefix), ttls.Check(c.ttl)); err != nil {
		return nil, err
	}
	d := newDriver(conn, c, done)
	if err := kit.Opening(ctx, openTimeout, func(ctx context.Context) error {
		return redisconn.OverdueFrom(redisconn.AddressOf(conn.Client), d.open(ctx))
	}, func(err error) error {
		return hint(err, redisconn.UsesTLS(conn.Client))
	}); err != nil {
		conn.Close()
		return nil, err
	}
	return driver.New(d, driver.Config{TTL: c.ttl, Features: locker.FeatureTTL | locker.FeatureSlots, ObeysContext: conn.ObeysContext()}), nil
}

// hint adds to err that only one side may speak TLS, if that can be the reason.
func hint(err error, usesTLS bool) error {
	switch {
	case !redisconn.MayBeTLS(err, usesTLS):
		return err
	case usesTLS:
		return fmt.Errorf("%w; a server that doesn't speak TLS needs redis:// or valkey://", err)
	}
	return fmt.Errorf("%w; a server that speaks TLS needs rediss:// or valkeys://, and one in protected mode accepts only connections from its own machine", err)
}

// Guarantees is what a Locker of one Redis server promises. With Sentinels it survives failovers
// ([locker.ToleranceFailover]). So does a Locker of a Cluster, where waiters poll, have no order,
// and aren't known ([locker.WaitingPolled], [locker.OrderNone], [locker.InspectionHolder]).
func Guarantees() locker.Guarantees {
	return locker.Guarantees{
		Backend:   backend,
		Scope:     locker.ScopeNetwork,
		Tolerance: locker.ToleranceNone,
		Exclusion: locker.ExclusionSingleNode,
		Fencing:   locker.FencingUntilDataLoss,
		Clocks:    locker.ClocksServer,
		Order:     locker.OrderFIFO,
		Waiting:   locker.WaitingHandOff,
		Expiry: locker.Expiry{
			By:    locker.ExpiryKey,
			TTL:   true,
			Slack: 100 * time.Millisecond, // until the first waiter has asked
		},
		Revocation: locker.RevocationRenewal,
		Restart:    locker.RestartAsPersisted,
		Inspection: locker.InspectionQueue,
		Break:      locker.BreakSeenAtRenewal,
		RoundTrips: 1,
		Cost:       locker.CostLow,
	}
}
