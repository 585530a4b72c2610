// Package redlockbackend keeps locks on several independent Redis or Valkey servers, 6.2 or later,
// of which a minority may fail: Redlock, with fencing tokens. It is opened by URL, or by [New] with
// clients of the caller's.
//
//	l, err := locker.Open(ctx, "redlock://:password@redis1,redis2,redis3,redis4,redis5?prefix=billing:&ttl=10s")
//
// # What it promises
//
// A lease is a key with a TTL on a majority of the servers. All servers are asked at the same time.
// Two majorities share a server, and that server has one holder for a lock. That one holder
// excludes the others rests on clocks: a server whose clock jumps ahead drops a lease early. If a
// majority's clocks do, a second holder gets in while the first believes in its lease, until the
// first's next renewal. So without fencing these locks are for efficiency ([locker.Efficiency]).
//
// The fencing token doesn't rest on clocks. It is a number that a majority of the servers have
// agreed to, in the same request that takes the lock: each server raises a counter to it, and never
// lowers the counter. So tokens are unique, and rise from lease to lease, whatever clocks do, as
// long as no majority loses its data. Where data is lost, tokens continue by the clocks. If the
// token is checked where the data lives, no stale write gets in as long as tokens rise. quorum.go
// has the reasons, docs/redlock.md what was proved about them.
//
// # Servers that forget
//
// A server that has lost data could grant a lock again that somebody holds. So it takes no part for
// the longest TTL that there may be: [WithMaxTTL], a minute unless set otherwise, the same for all
// Lockers of the servers. The server itself notices the loss, with every request: after a restart,
// FLUSHALL or SWAPDB, and when it was made a replica and is a master again. docs/redlock.md lists
// the few losses that it can't notice, DEBUG RELOAD NOSAVE among them.
//
// A cluster that is new has this wait, too, because its servers can't distinguish that from a loss:
// the first Acquire on new servers, or with a new prefix, takes a minute, and TryAcquire fails
// until then. [WithNewCluster] waives it, once.
//
// # Independent servers
//
// Each server has one vote and one memory. A group that fails over to a replica has two memories,
// and both may vote in a split. So a server must not be replicated for fail-over, nor have an
// address that moves to another server. Clients that find their server through Sentinels are
// refused with [errors.ErrUnsupported].
//
// All Lockers must use the same servers. To change them, stop all Lockers first: docs/redlock.md,
// "Changing the servers". A lease is attached to the servers that granted it. A server that has
// restarted isn't added to it. So a restart of all servers, one by one, ends the leases that exist
// all that time.
//
// # Waiting
//
// A release notifies one waiter, with a message from each server, and that waiter asks: a round
// trip and a half from holder to holder. (Where servers differ about who is next, they notify
// several waiters, and the lock is granted up to 0.1 s later.) No order is promised, because a
// caller that has not waited may come first. A Locker that has to wait keeps one connection to each
// server for these messages, with one goroutine, from its first wait until Close.
//
// # URLs
//
//	redlock://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT],…[/DB]    3, 5 or 7 servers
//	redlock://[USER:PASSWORD@]HOST[:PORT][/DB]?addr=HOST:PORT&addr=HOST:PORT    the same
//	redlocks://…                                               the same over TLS
//	redlock://?server=URL&server=URL&…                          servers that differ in more than their address
//
// PORT is 6379 if not given; give every host a port or none. User, password, database and TLS are
// those of all these servers. Servers with different passwords, for example, have URLs of their
// own. Each is a URL of package redisbackend, escaped: redis://, rediss://, valkey://, valkeys://
// or redis+unix://, with the parameters db, ca_file, cert_file, key_file, server_name and
// skip_verify. The parameters, all optional:
//
//	prefix           what keys and channels begin with: "redlock:"
//	ttl              of leases that don't ask for one: 30s, or max_ttl if that is shorter
//	max_ttl          the longest TTL: 1m, see [WithMaxTTL]
//	node_timeout     how long a server may take to answer: 1s, see [WithNodeTimeout]
//	new_cluster      true: see [WithNewCluster]
//	addr             HOST:PORT of a further server; may be repeated
//	server           URL of a further server; may be repeated
//	db               the database, instead of the path
//	pool_size        connections at most, to each server: 10 for each CPU
//	allow_eviction   true: see [WithEviction]
//	ca_file          authorities for the servers' certificates, PEM: those of the system
//	cert_file, key_file   the client's own certificate, PEM
//	server_name      expected in the servers' certificates: the host
//	skip_verify      true: accept any certificate
//
// # What is checked when it is opened
//
// That a majority of the servers answer. That those that do are different servers, have a version
// that is supported, are no replicas and no part of a Cluster, execute the scripts, and permit this
// user what they do; that they keep their keys when memory is full; and that they know the same
// longest TTL.
//
// # go-redis' own log
//
// go-redis writes lines about connections to standard error. How a program turns that off is in the
// documentation of package redisbackend.
package redlockbackend

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
	backend            = "redlock"
	defaultPrefix      = "redlock:"
	defaultTTL         = 30 * time.Second
	defaultMaxTTL      = time.Minute
	defaultNodeTimeout = time.Second

	// minTTL is the shortest TTL: several servers have to answer, twice if need be.
	minTTL = 20 * time.Millisecond

	// pollSlack is how much later than the end of a lease the first waiter may ask.
	pollSlack = 500 * time.Millisecond
)

// Option changes what [New] makes.
type Option func(*config)

type config struct {
	prefix        string
	ttl, maxTTL   time.Duration
	ttlGiven      bool
	nodeTimeout   time.Duration
	newCluster    bool
	allowEviction bool
}

func newConfig(opts []Option) config {
	c := config{prefix: defaultPrefix, maxTTL: defaultMaxTTL, nodeTimeout: defaultNodeTimeout}
	for _, opt := range opts {
		opt(&c)
	}
	if !c.ttlGiven {
		c.ttl = usualTTL(c.maxTTL)
	}
	return c
}

// usualTTL is the TTL of leases that don't ask for one if it isn't set either.
func usualTTL(longest time.Duration) time.Duration { return min(defaultTTL, longest) }

// WithPrefix sets what the keys and channels of the locks begin with; without it, "redlock:". Every
// Locker that shares these locks must use the same prefix. It has no braces.
func WithPrefix(prefix string) Option { return func(c *config) { c.prefix = prefix } }

// WithDefaultTTL sets the TTL of leases that don't ask for one; without it, it is 30 s, or the
// longest TTL if that is shorter. It is rounded up to milliseconds, and refused below 20 ms and
// above the longest TTL.
func WithDefaultTTL(d time.Duration) Option { return func(c *config) { c.ttl, c.ttlGiven = d, true } }

// WithMaxTTL sets the longest TTL of all locks with this prefix on these servers; without it, it is
// a minute. A server that may have forgotten leases grants nothing for that time. All Lockers must
// set the same, and the servers refuse those that don't. To change it, stop all Lockers, and delete
// the key "memory" under the prefix on all servers when the longest TTL has passed.
func WithMaxTTL(d time.Duration) Option { return func(c *config) { c.maxTTL = d } }

// WithNodeTimeout sets how long one server may take to answer before it counts as failed; without
// it, it is 1 s. It is never more than half of a lease's TTL. While a majority answers, nobody
// waits for the others.
func WithNodeTimeout(d time.Duration) Option { return func(c *config) { c.nodeTimeout = d } }

// WithNewCluster says that the servers have never been used. It waives the wait of servers that
// don't know whether they have forgotten anything, if none of them knows anything when the Locker
// is opened. On servers that have lost their data all at once that lets a second holder in, so
// remove it after the first start.
func WithNewCluster() Option { return func(c *config) { c.newCluster = true } }

// WithEviction accepts servers that may drop locks when their memory is full (a maxmemory-policy
// other than noeviction): then a second holder may get in. They may drop counters as well, with
// every such policy and unnoticed, so tokens may repeat or fall, unless the clients' clocks are
// right.
func WithEviction() Option { return func(c *config) { c.allowEviction = true } }

// New makes a Locker that uses clients of the caller's, one for each server. The caller closes them
// after the Locker. New checks whether the servers fit (see the package comment), for up to 10 s.
//
// The clients keep their settings, and other parts of a program may use them at the same time.
// Their retries don't apply here: nothing is sent twice. Set ContextTimeoutEnabled if you can.
// Otherwise a request to a server that doesn't answer may keep its connection until the client's
// own timeouts.
//
// ctx covers the opening alone, not the Locker's life.
func New(ctx context.Context, servers []*redis.Client, opts ...Option) (locker.Locker, error) {
	l, err := newLocker(ctx, servers, newConfig(opts), nil)
	return l, kit.OpenError(backend, err)
}

func newLocker(ctx context.Context, clients []*redis.Client, c config, done func() error) (locker.Locker, error) {
	addrs := make([]string, 0, len(clients))
	for _, client := range clients {
		if redisconn.UsesSentinels(client) {
			return nil, errSentinels
		}
		addrs = append(addrs, client.Options().Addr)
	}
	if err := errors.Join(c.check(), checkServers(addrs)); err != nil {
		return nil, err
	}
	d := newDriver(clients, c, done)
	if err := kit.Opening(ctx, openTimeout, d.open, nil); err != nil {
		d.done = nil // the caller closes what it gave
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.nodeTimeout)
		defer cancel()
		_ = d.Close(limited)
		return nil, err
	}
	return driver.New(d, driver.Config{TTL: c.ttl, Features: locker.FeatureTTL}), nil
}

func (c config) check() error {
	switch {
	case c.maxTTL < minTTL || c.maxTTL > longestMaxTTL:
		return fmt.Errorf("%w: invalid longest TTL %v: want one from %v to %v, for example 1m", locker.ErrOption, c.maxTTL, minTTL, longestMaxTTL)
	case c.nodeTimeout < time.Millisecond:
		return fmt.Errorf("%w: invalid time for a server to answer, %v: want 1ms or more, for example 1s", locker.ErrOption, c.nodeTimeout)
	}
	return errors.Join(redisconn.CheckPrefix(c.prefix), c.ttls().Check(c.ttl))
}

// longestMaxTTL is the largest longest TTL: a server that has forgotten something takes no part for
// that time.
const longestMaxTTL = 24 * time.Hour

// ttls are the TTLs that leases may have.
func (c config) ttls() kit.TTL {
	return kit.TTL{Min: minTTL, Max: c.maxTTL, Unit: time.Millisecond, Why: "the longest of these servers: WithMaxTTL, in a URL max_ttl"}
}

// checkServers refuses a number of servers with which Redlock makes no sense.
func checkServers(addrs []string) error {
	n := len(addrs)
	const want = "invalid number of servers: want 3, 5 or 7"
	switch {
	case n < 3:
		return fmt.Errorf("%w: %s; %d servers have no majority without each of them (package redisbackend is for one server)",
			locker.ErrOption, want, n)
	case n%2 == 0:
		return fmt.Errorf("%w: %s; with %d servers no more may fail than with %d, and two clients "+
			"that ask at the same time may get half of them each", locker.ErrOption, want, n, n-1)
	case n > mostServers:
		return fmt.Errorf("%w: %s; each request would go to all of %d servers", locker.ErrOption, want, n)
	}
	seen := make(map[string]bool)
	for _, addr := range addrs {
		if seen[addr] {
			return fmt.Errorf("%w: %s is given twice: want servers that are independent of each other", locker.ErrOption, addr)
		}
		seen[addr] = true
	}
	return nil
}

// errSentinels refuses a fail-over group as one of the servers: it has more than one memory. A
// former master that is cut off with a client continues to renew, while the promoted one, which may
// have missed the lease, grants the lock to another client.
var errSentinels = fmt.Errorf("%w: Redlock needs servers that are independent of each other, and a group behind Sentinels "+
	"(master_name, FailoverClient) isn't: a fail-over replaces what it remembers; use package redisbackend for such a group",
	errors.ErrUnsupported)

// Guarantees is what a Locker of several Redis servers promises.
func Guarantees() locker.Guarantees {
	return locker.Guarantees{
		Backend:   backend,
		Scope:     locker.ScopeNetwork,
		Tolerance: locker.ToleranceMinority,
		Exclusion: locker.ExclusionMajority,
		Fencing:   locker.FencingUntilDataLoss,
		Clocks:    locker.ClocksAll,
		Order:     locker.OrderNone,
		Waiting:   locker.WaitingHandOff,
		Expiry: locker.Expiry{
			By:    locker.ExpiryKey,
			TTL:   true,
			Slack: pollSlack,
		},
		Revocation: locker.RevocationRenewal,
		Restart:    locker.RestartNothing,
		RoundTrips: 1,
		Cost:       locker.CostMedium,
	}
}
