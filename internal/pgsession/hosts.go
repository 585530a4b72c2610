package pgsession

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pgx 5.12 (pgconn.go, buildConnectOneConfigs and connectPreferred) resolves the names of the hosts
// one after the other, with no limit of its own. Then it tries each address of each host in turn, first
// all of a host's with TLS and then all without it, where both are permitted. ConnectTimeout begins
// again with each address that isn't the one before; without it the first address has all the time.
//
// So an address that is cut off would use up the time of the others. Here all names are resolved at the
// same time, the ways of each address follow one another, as with libpq, and each address has its part
// of the time.

// endpoint is a host and a port of a configuration.
type endpoint struct {
	host string
	port uint16
}

// endpoints are what a configuration names, in its order, with the ways in which each is tried: the same
// host may come twice, with TLS and without.
func endpoints(c *pgx.ConnConfig) (all []endpoint, ways map[endpoint][]*pgconn.FallbackConfig) {
	ways = make(map[endpoint][]*pgconn.FallbackConfig)
	tries := append([]*pgconn.FallbackConfig{{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}}, c.Fallbacks...)
	for _, try := range tries {
		e := endpoint{try.Host, try.Port}
		if ways[e] == nil {
			all = append(all, e)
		}
		ways[e] = append(ways[e], try)
	}
	return all, ways
}

// Hosts counts the servers that a configuration names.
func Hosts(c *pgx.ConnConfig) int {
	all, _ := endpoints(c)
	return len(all)
}

const connectLimit = 5 * time.Second // for each host

// ConnectLimit is how long a connection may take to be made and prepared.
func ConnectLimit(config *pgxpool.Config) time.Duration {
	return time.Duration(Hosts(config.ConnConfig)) * connectLimit
}

// leastShare is the part of each address where there are many: the handshake with TLS takes some six round
// trips, and an address that refuses takes no part.
const leastShare = 1500 * time.Millisecond

// shareTime resolves the hosts of a configuration, and leaves each of several addresses its part of the
// time. A host whose name isn't resolved has had its part then.
func shareTime(ctx context.Context, cfg *pgx.ConnConfig) {
	all, ways := endpoints(cfg)
	names := lookUp(ctx, cfg.LookupFunc, all)
	addresses := 0
	var tries []*pgconn.FallbackConfig
	next := make(map[string][]found) // by host, in the order in which pgx asks for them
	for _, e := range all {
		for _, f := range names[e.host].each() {
			some := ways[e]
			if f.err == nil {
				addresses++
			} else {
				some = some[:1] // to say so once
			}
			tries = append(tries, some...)
			next[e.host] = append(next[e.host], slices.Repeat([]found{f}, len(some))...)
		}
	}
	cfg.Host, cfg.Port, cfg.TLSConfig, cfg.Fallbacks = tries[0].Host, tries[0].Port, tries[0].TLSConfig, tries[1:]
	cfg.LookupFunc = func(_ context.Context, host string) ([]string, error) {
		if len(next[host]) == 0 {
			return nil, fmt.Errorf("the configuration has no host %q", host)
		}
		f := next[host][0]
		next[host] = next[host][1:]
		return f.addresses, f.err
	}
	until, limited := ctx.Deadline()
	if !limited || addresses < 2 {
		return
	}
	share := max(time.Until(until)/time.Duration(addresses), leastShare)
	if cfg.ConnectTimeout == 0 || cfg.ConnectTimeout > share {
		cfg.ConnectTimeout = share
	}
}

// found is what the look-up of a name has found.
type found struct {
	addresses []string // none, without an error: the host is a directory, of a Unix-domain socket
	err       error
}

// each is the same with one address each.
func (f found) each() (all []found) {
	for _, address := range f.addresses {
		all = append(all, found{addresses: []string{address}})
	}
	if all == nil {
		return []found{f}
	}
	return all
}

// lookUp resolves the names of hosts, all at the same time. Where there are several, they get no longer
// than the part of one.
func lookUp(ctx context.Context, resolve pgconn.LookupFunc, all []endpoint) map[string]found {
	if until, limited := ctx.Deadline(); limited && len(all) > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(until)/time.Duration(len(all)))
		defer cancel()
	}
	pending := make(map[string]chan found)
	for _, e := range all {
		network, _ := pgconn.NetworkAddress(e.host, e.port)
		if pending[e.host] != nil || network == "unix" { // which pgx doesn't resolve
			continue
		}
		done := make(chan found, 1)
		pending[e.host] = done
		go func() {
			addresses, err := resolve(ctx, e.host)
			done <- found{addresses, err}
		}()
	}
	names := make(map[string]found, len(pending))
	for host, done := range pending {
		select {
		case <-ctx.Done():
		case names[host] = <-done:
			continue
		}
		select {
		case names[host] = <-done: // at the same time, or before another host's time was up
		default:
			names[host] = found{err: fmt.Errorf("the host name %s is not resolved: %w", host, ctx.Err())}
		}
	}
	return names
}
