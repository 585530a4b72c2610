package redlockbackend

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
)

const (
	defaultPrefix        = "redlock:"
	defaultTTL           = 30 * time.Second
	defaultMaxTTL        = time.Minute
	defaultServerTimeout = time.Second

	// minTTL is the shortest TTL: several servers have to answer, twice if need be.
	minTTL = 20 * time.Millisecond

	// pollSlack is how much later than the end of a lease the first waiter may ask.
	pollSlack = 500 * time.Millisecond
)

// Option changes what [New] makes. With an invalid value New fails: the error matches [locker.ErrOption].
type Option func(*config)

type config struct {
	prefix        string
	ttl, maxTTL   time.Duration
	ttlGiven      bool
	serverTimeout time.Duration
	newCluster    bool
	allowEviction bool
}

func newConfig(opts []Option) config {
	c := config{prefix: defaultPrefix, maxTTL: defaultMaxTTL, serverTimeout: defaultServerTimeout}
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
// Locker that shares these locks must use the same prefix. One with a brace or a control character is
// refused.
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

// WithServerTimeout sets how long one server may take to answer before it counts as failed; without
// it, it is 1 s. It is never more than half of a lease's TTL, and to release the lease never more
// than the TTL. While a majority answers, nobody waits for the others.
func WithServerTimeout(d time.Duration) Option { return func(c *config) { c.serverTimeout = d } }

// WithNewCluster says that the servers have never been used. It waives the wait of servers that
// don't know whether they have forgotten anything, if none of them knows anything when the Locker
// is opened. On servers that have lost their data all at once that lets a second holder in, so
// remove it after the first start.
func WithNewCluster() Option { return func(c *config) { c.newCluster = true } }

// AllowEviction accepts servers that may drop locks when their memory is full (a maxmemory-policy
// other than noeviction): then a second holder may get in. They may drop counters as well, with
// every such policy and unnoticed, so tokens may repeat or fall, unless the clients' clocks are
// right.
func AllowEviction() Option { return func(c *config) { c.allowEviction = true } }

func (c config) check() error {
	switch {
	case c.maxTTL < minTTL || c.maxTTL > longestMaxTTL:
		return fmt.Errorf("%w: invalid longest TTL %v: want one from %v to %v, for example 1m", locker.ErrOption, c.maxTTL, minTTL, longestMaxTTL)
	case c.serverTimeout < time.Millisecond:
		return fmt.Errorf("%w: invalid time for a server to answer, %v: want 1ms or more, for example 1s", locker.ErrOption, c.serverTimeout)
	}
	return errors.Join(redisconn.CheckPrefix(c.prefix), c.ttls().Check(c.ttl))
}

// longestMaxTTL is the largest longest TTL: a server that has forgotten something takes no part for
// that time.
const longestMaxTTL = 24 * time.Hour

// ttls are the TTLs that leases may have.
func (c config) ttls() kit.TTLBounds {
	return kit.TTLBounds{Min: minTTL, Max: c.maxTTL, Unit: time.Millisecond, Why: "the longest of these servers: WithMaxTTL, in a URL max_ttl"}
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
