// Package etcdbackend keeps locks in an etcd cluster, 3.5 or later. It is opened by URL, or by
// [New] with a client of the caller's.
//
//	l, err := locker.Open(ctx, "etcd://user:password@etcd1:2379,etcd2:2379,etcd3:2379?prefix=billing/&ttl=30s")
//
// # What it promises
//
// A lock is a key, and its fencing token is the key's create revision: no later lease has a smaller
// token, whatever restarts or fails, because the cluster agrees on revisions. The keys of a Locker
// are attached to an etcd lease, one for each TTL in use, which is its session; when the holder
// falls silent, etcd removes them together. The locks survive the loss of a minority of the
// members. So they are for correctness ([locker.Correctness]), with the token checked where the
// data lives, because no lock can stop a holder that was paused. Data in etcd is fenced in its own
// transaction: see [Owner].
//
// A lease is trusted until its deadline and no longer. That is a promise about etcd as much as
// about this package: proof.go says, with the reasons, which answers of the cluster prove how long
// a key will exist.
//
// # Waiting
//
// The waiters of all Lockers are in a queue of keys, first come, first served. A waiter watches the
// keys before its own and has the lock when the last of them is gone; it asks nothing then. A
// Locker has one stream for all of its watches, with two goroutines, from when it first waits, or
// holds a lease for a moment, until Close. By that stream a holder also learns at once that its key
// was deleted, or its etcd lease revoked.
//
// # Members
//
// A Locker begins with a member at random, and asks that one until it doesn't answer; then another.
// All addresses must be of members of one cluster. If a member of another cluster answers when the
// Locker is opened, New and Open fail; if one answers later, it is left, and its answer counts for
// nothing. If another cluster answers at the same addresses, the Locker grants nothing any more,
// and its errors say that it must be opened again. etcd computes a cluster's id from the token and
// the peer addresses with which it was founded, so give each cluster an --initial-cluster-token of
// its own.
//
// Name each member. If no more addresses are known when the Locker is opened than a minority has, such
// as one of three, the Locker promises [locker.ToleranceNone]. The addresses of a client with AutoSync
// are the members' after its first Sync, so call that before New.
//
// The addresses may be a TCP balancer's. etcd's own grpc-proxy is refused: see docs/etcd.md.
//
// # URLs
//
//	etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…]
//	etcds://…                                      the same over TLS
//
// HOST is localhost and PORT 2379 if not given; give every host a port or none. The parameters, all
// optional, each with its default after the colon if it has one:
//
//	prefix           what the keys begin with, as for WithPrefix: "locker/"
//	ttl              of leases that don't ask for one: 30s
//	addr             HOST:PORT of a further member; may be repeated
//	ca_file          authorities for the servers' certificates, PEM: the system's
//	cert_file, key_file   the client's own certificate, PEM
//	server_name      expected in the servers' certificates: the host
//	skip_verify      true: accept any certificate
//
// # TTL
//
// From 2 s to 300 s, rounded up to seconds. etcd raises what is shorter than 1.5 of its election
// timeouts (1 s by default); the lease shows what is in force. Five election timeouts or more let a
// holder keep its locks while the cluster elects a leader. A Locker has a session for each TTL, for
// up to eight TTLs at the same time; more are refused with [locker.ErrTooManyTTLs].
//
// # Clients
//
// A client that New is given keeps its settings, and other parts of a program may use it at the
// same time. The driver makes connections of its own with it, one for each member, so that it can
// leave a member that doesn't answer; they are closed with the Locker. If the client has
// grpc.WithBlock, a member that can't be reached is one that doesn't answer, and the others are
// asked. Set DialKeepAliveTime (10 s), DialKeepAliveTimeout (2 s) and, among the DialOptions,
// grpc.WithIdleTimeout (1 min), or a dead connection is noticed late.
//
// What wraps the client is not used: with client.KV = namespace.NewKV(…) the keys of the locks are
// still below the prefix that [WithPrefix] sets, outside the namespace, and [Owner.IsOwner] in a
// transaction through the wrapper is never met. Compare it in a transaction of a client without a
// wrapper.
package etcdbackend

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/etcdconn"
)

const (
	backend       = "etcd"
	defaultTTL    = 30 * time.Second
	defaultPrefix = "locker/"
	openLimit     = 10 * time.Second // of all that opening asks the servers
)

// Option changes what [New] makes. With an invalid value New fails: the error matches [locker.ErrOption].
type Option func(*config)

type config struct {
	prefix string
	ttl    time.Duration
}

func newConfig(opts []Option) config {
	c := config{prefix: defaultPrefix, ttl: defaultTTL}
	for _, opt := range opts {
		opt(&c)
	}
	return c
}

// WithPrefix sets what the keys of the locks begin with; without it, "locker/". Every Locker that
// shares these locks must use the same prefix. No prefix may begin with another one that is in use:
// the name "locks" below "billing/" and a Locker with the prefix "billing/locks/" would use the
// same keys. An empty prefix, or one with control characters, is refused.
func WithPrefix(prefix string) Option { return func(c *config) { c.prefix = prefix } }

// WithDefaultTTL sets the TTL of leases that don't ask for one; without it, it is 30 s. It is
// rounded up to seconds, and refused below 2 s and above 300 s.
func WithDefaultTTL(d time.Duration) Option { return func(c *config) { c.ttl = d } }

// New makes a Locker that uses a client of the caller's. The caller closes the client after the
// Locker. New asks the cluster whether it fits, for up to 10 s.
//
// ctx covers the opening alone, not the Locker's life.
func New(ctx context.Context, client *clientv3.Client, opts ...Option) (locker.Locker, error) {
	l, err := newLocker(ctx, client, newConfig(opts), nil)
	return l, kit.OpenError(backend, err)
}

func newLocker(ctx context.Context, client *clientv3.Client, c config, closeClient func() error) (locker.Locker, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: client: want one, for example of clientv3.New", locker.ErrOption)
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	d := newDriver(client, c)
	if err := kit.Opening(ctx, openLimit, d.check, hint); err != nil {
		closing, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer done()
		_ = d.Close(closing)
		return nil, err
	}
	d.closeClient = closeClient
	// ObeysContext isn't declared: Acquire waits for the outcome of a request that was sent, for an
	// attempt's time after its context has ended.
	return driver.New(d, driver.Config{TTL: c.ttl, Features: locker.FeatureTTL | locker.FeatureSlots}), nil
}

// check refuses what can't work with any cluster.
func (c config) check() error {
	if c.prefix == "" { // all keys of the cluster would be keys of locks
		return fmt.Errorf("%w: prefix: want at least one character, for example %q", locker.ErrOption, defaultPrefix)
	}
	return etcdconn.Join(kit.CheckPrefix(c.prefix), ttls.Check(c.ttl))
}

// Guarantees is what a Locker of an etcd cluster of three members or more promises. With fewer
// members, or with the addresses of a minority alone, none may fail ([locker.ToleranceNone]). The
// field Because says so then. The slack is for the default election timeout of
// 1 s; if the cluster has a longer one, the Locker's own Guarantees have more, and say so. It covers a leader
// that fails at the same time as the holder. A leader that is elected later gives the dead holder's
// lock the whole TTL again: see [locker.Expiry]. Where the cluster has N etcd leases, of all clients,
// and 1,000 or more, add N/750 s: it ends only so many a second.
func Guarantees() locker.Guarantees {
	return locker.Guarantees{
		Backend:   backend,
		Scope:     locker.ScopeNetwork,
		Tolerance: locker.ToleranceMinority,
		Exclusion: locker.ExclusionConsensus,
		Fencing:   locker.FencingDurable,
		Clocks:    locker.ClocksSpeed,
		Order:     locker.OrderFIFO,
		Waiting:   locker.WaitingHandOff,
		Expiry: locker.Expiry{
			By:    locker.ExpirySession,
			TTL:   true,
			Slack: elections * time.Second,
		},
		Revocation: locker.RevocationAtOnce,
		Restart:    locker.RestartLeases,
		Inspection: locker.InspectionQueue,
		Break:      locker.BreakSeenAtOnce,
		RoundTrips: 1,
		Cost:       locker.CostHigh,
	}
}
