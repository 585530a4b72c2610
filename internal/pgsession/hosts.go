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
// same time, and pgx gets one address at a time, with all its ways, as with libpq, and its part of the time.

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

// connect makes a connection to one of the addresses of a configuration, in their order. Each has an even
// part of the time that is left, so what one doesn't need is for the others. A host whose name isn't
// resolved has had its part then.
func connect(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.Conn, error) {
	attempts := attemptsAt(ctx, cfg)
	left := 0
	for _, a := range attempts {
		if a.err == nil {
			left++
		}
	}
	var failures []error
	for _, a := range attempts {
		if a.err != nil {
			failures = append(failures, a.err)
			continue
		}
		made, err := a.connect(ctx, cfg, left)
		if err == nil {
			return made, nil
		}
		failures = append(failures, err)
		if slices.ContainsFunc(ofEachWay(err), refusesUser) { // and so do the other addresses, as for pgx
			break
		}
		left--
	}
	return nil, inOneLine(&cfg.Config, failures)
}

func refusesUser(err error) bool { return Says(err, codePassword, codeNoDatabase, codePermission) }

// attempt is one address of a host, and the ways in which it is tried.
type attempt struct {
	found
	ways []*pgconn.FallbackConfig
}

// attemptsAt resolves the hosts of a configuration.
func attemptsAt(ctx context.Context, cfg *pgx.ConnConfig) (attempts []attempt) {
	all, ways := endpoints(cfg)
	names := lookUp(ctx, cfg.LookupFunc, all)
	for _, e := range all {
		for _, f := range names[e.host].each() {
			attempts = append(attempts, attempt{f, ways[e]})
		}
	}
	return attempts
}

// connect makes a connection to one address, where left addresses share the time.
func (a attempt) connect(ctx context.Context, cfg *pgx.ConnConfig, left int) (*pgx.Conn, error) {
	if until, limited := ctx.Deadline(); limited && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(time.Until(until)/time.Duration(left), leastShare))
		defer cancel()
	}
	one := cfg.Copy()
	first := a.ways[0]
	one.Host, one.Port, one.TLSConfig, one.Fallbacks = first.Host, first.Port, first.TLSConfig, a.ways[1:]
	one.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		if host != first.Host { // AfterConnect may have put another one into the configuration
			return cfg.LookupFunc(ctx, host)
		}
		return a.addresses, nil
	}
	return pgx.ConnectConfig(ctx, one)
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
