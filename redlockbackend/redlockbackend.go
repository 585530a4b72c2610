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
// the same for all these servers. Servers with different passwords, for example, have URLs of their
// own. Each is a URL of package redisbackend, escaped: redis://, rediss://, valkey://, valkeys://
// or redis+unix://, with the parameters db, ca_file, cert_file, key_file, server_name and
// skip_verify. The parameters, all optional, each with its default after the colon if it has one:
//
//	prefix           what keys and channels begin with: "redlock:"
//	ttl              of leases that don't ask for one: 30s, or max_ttl if that is shorter
//	max_ttl          the longest TTL: 1m, see WithMaxTTL
//	server_timeout   how long a server may take to answer: 1s, see WithServerTimeout
//	new_cluster      true: see WithNewCluster
//	addr             HOST:PORT of a further server; may be repeated
//	server           URL of a further server; may be repeated
//	db               the database, instead of the path
//	pool_size        connections at most for requests, to each server: 10 for each CPU
//	allow_eviction   true: see AllowEviction
//	ca_file          authorities for the servers' certificates, PEM: the system's
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

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
)

const backend = "redlock"

// New makes a Locker that uses clients of the caller's, one for each server. The caller closes them
// after the Locker. New checks whether the servers fit (see the package comment), for up to 10 s.
//
// The clients keep their settings, and other parts of a program may use them at the same time.
// Their retries don't apply here: no request that takes or renews a lock is sent twice, and a release
// is repeated after a broken connection. Set ContextTimeoutEnabled if you can. Otherwise requests are
// sent with timeouts of [WithServerTimeout] if the client's own are longer, and then without the
// client's hooks.
//
// ctx covers the opening alone, not the Locker's life.
func New(ctx context.Context, servers []*redis.Client, opts ...Option) (locker.Locker, error) {
	for i, client := range servers {
		if err := redisconn.CheckClient(client, fmt.Sprintf("client %d", i+1)); err != nil {
			return nil, kit.OpenError(backend, err)
		}
	}
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
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.serverTimeout)
		defer cancel()
		_ = d.Close(limited)
		return nil, err
	}
	return driver.New(d, driver.Config{TTL: c.ttl, Features: locker.FeatureTTL | locker.FeatureSlots, ObeysContext: true}), nil
}

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
		Inspection: locker.InspectionQueue,
		Break:      locker.BreakSeenAtRenewal,
		RoundTrips: 1,
		Cost:       locker.CostMedium,
	}
}
