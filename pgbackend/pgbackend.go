// Package pgbackend keeps locks in a Postgres database, as advisory locks: session locks behind
// [locker.Locker], and locks of a transaction of the caller's ([Locker.LockTx]). It is opened by
// URL, or by [New] with a configuration of pgx.
//
//	l, err := locker.Open(ctx, "postgres://user:password@pg.example:5432/app?prefix=billing:&ttl=30s")
//
// # What it promises
//
// The lock table of one database decides; the server is Postgres 14 or later. A lease is attached
// to a connection that belongs to the Locker, which many leases share. When the connection ends, so
// do they, and the holders are notified at once. The server ends it by itself when it hears nothing
// for the TTL (idle_session_timeout), so a holder that is stopped or cut off loses its locks as
// with any other backend; one statement for each connection renews all its leases.
//
// The server's TCP doesn't end the connection of a holder that is cut off before the TTL is over:
// each connection sets tcp_user_timeout, which replaces the limits of postgresql.conf and of the
// kernel. It can't change what is between: poolers, proxies, load balancers and service meshes must
// wait for longer than the TTL as well. docs/postgres.md has a table of them.
//
// Tokens come from a sequence, in the same message that takes the lock. They go on rising over
// crashes, which make a plain sequence repeat itself, over failovers to a replica that lags, over
// dump and restore, and when the sequence is set back while no Locker is open.
//
// # Waiting
//
// A waiter has a connection of its own, on which a statement blocks until the waiter has the lock:
// a release wakes one waiter and no other, in the order of the server's queue. The lease then moves
// to the connection that the leases share. The number of connections for waiters is bounded
// ([WithWaiterConnections]); a waiter that gets none polls. Waiters of one Locker for one name are
// in the Locker's own queue, and only the first of them has a connection.
//
// # Looking
//
// [locker.Inspect] and [locker.List] read the lock table, and a table in which Lockers write, in the
// background, names and what holders say of themselves ([locker.WithHolder]). Leases and waits of
// less than about a third of their TTL write nothing. No lease rests on that table: without it, or
// without permissions on it, less is shown. [WithoutLabels] switches it off.
//
// [locker.Break] compares the token in that table, and writes there who takes the lock away; the
// holder reads it after its next renewal. So it takes away leases that are older than about a third of
// their TTL, if their Locker may write there.
//
// # URLs
//
//	postgres://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]…]/DATABASE      or postgresql://
//
// These are the URLs of libpq, as pgx reads them. What a URL doesn't say comes from where Postgres
// clients look for it: the variables PG… of the environment, ~/.pgpass. The parameters of this
// package, all optional, each with its default after the colon:
//
//	prefix               what names begin with, for the keys of locks: "locker:"
//	ttl                  of leases that don't ask for one: 30s
//	schema               where the sequence and the epoch are: "locker"
//	waiter_connections   connections for waiters at most: 8
//	labels               false: nothing is written about holders, as for WithoutLabels: true
//
// Those of libpq that are understood: host, port, user, password, dbname, passfile, service,
// servicefile, connect_timeout, sslmode, sslcert, sslkey, sslpassword, sslrootcert, sslsni,
// sslnegotiation, sslcertmode, channel_binding, require_auth, krbsrvname, krbspn,
// min_protocol_version, max_protocol_version, target_session_attrs, application_name, options. Of the
// values of target_session_attrs those are refused that ask for a standby or a read-only server.
//
// # What is checked when it is opened
//
// That the server is Postgres 14 or later and takes writes, that half of its lock table is free,
// that the sequence and the epoch exist or can be made ([Migration]), and that no pooler is between
// that gives each transaction another server: PgBouncer works in session mode; in its other modes a
// session lock would be left on another client's connection, so they are refused. A server that has
// no tcp_user_timeout, because its system isn't Linux, is refused as well
// ([errors.ErrUnsupported]), unless it is on the client's machine.
package pgbackend

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker"
)

const (
	backend        = "postgres"
	defaultTTL     = 30 * time.Second
	defaultPrefix  = "locker:"
	defaultSchema  = "locker"
	defaultWaiters = 8
	openLimit      = 10 * time.Second // of all that opening asks the server; more if there are many hosts
)

// Option changes what [New] makes. With an invalid value New fails: the error matches [locker.ErrOption].
type Option func(*options)

type options struct {
	prefix  string
	ttl     time.Duration
	schema  string
	waiters int
	labels  bool
}

func newOptions(opts []Option) options {
	o := options{prefix: defaultPrefix, ttl: defaultTTL, schema: defaultSchema, waiters: defaultWaiters, labels: true}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithPrefix sets what names begin with before they become keys; without it, "locker:". Every
// Locker that shares these locks must use the same prefix.
func WithPrefix(prefix string) Option { return func(o *options) { o.prefix = prefix } }

// WithDefaultTTL sets the TTL of leases that don't ask for one; without it, it is 30 s. It is
// rounded up to milliseconds. The least is 100 ms. The most is what idle_session_timeout can say: a
// little less than 25 days.
func WithDefaultTTL(d time.Duration) Option { return func(o *options) { o.ttl = d } }

// WithSchema sets the schema of the sequence and the epoch; without it, "locker". What is missing
// is made if that is permitted, and tokens can't fall by that;
// [Migration] has the SQL. Every Locker that shares these locks must use the same schema: another
// schema has its own tokens, so it has its own locks.
func WithSchema(schema string) Option { return func(o *options) { o.schema = schema } }

// WithWaiterConnections sets how many connections there are at most for waiters, each of which
// needs one; without it, 8. A waiter that gets none polls. With 0 all waiters poll, and Guarantees
// say so. A negative n is refused when the Locker is opened.
func WithWaiterConnections(n int) Option { return func(o *options) { o.waiters = n } }

// WithoutLabels switches off what a Locker writes about holders and waiters: the names and what
// [locker.WithHolder] sets, in the table locker_lease, and the application_name. Without this
// option a Locker writes them where its role may, about leases and waits that last for more than a
// third of their TTL: see docs/postgres.md. With it nobody can take a lock of this Locker away, and
// this Locker takes none away ([locker.Break]).
func WithoutLabels() Option { return func(o *options) { o.labels = false } }

// Locker keeps locks in a Postgres database. Beyond the methods of [locker.Locker] it takes locks
// for transactions.
type Locker struct {
	locker.Locker
	d *pgDriver
}

// Unwrap gives [locker.AsLocker] the engine, which has what [locker.Observe] and [locker.Inspect]
// need.
func (l *Locker) Unwrap() locker.Locker { return l.Locker }

// New makes a Locker with connections of its own. It makes them as a pool with this configuration
// would, from ConnConfig, BeforeConnect and AfterConnect; it uses no other fields. ConnConfig must be
// made by ParseConfig of pgx or pgxpool, as pgx demands, and may be changed then. New connects, and
// asks the server whether it fits (see the package comment), for up to 10 s.
//
// ctx covers the opening alone, not the Locker's life.
func New(ctx context.Context, config *pgxpool.Config, opts ...Option) (*Locker, error) {
	return newLocker(ctx, config, newOptions(opts))
}

// Guarantees is what a Locker of one Postgres server promises. One that is opened with several
// hosts survives failovers ([locker.ToleranceFailover]).
func Guarantees() locker.Guarantees {
	return locker.Guarantees{
		Backend:   backend,
		Scope:     locker.ScopeNetwork,
		Tolerance: locker.ToleranceNone,
		Exclusion: locker.ExclusionDatabase,
		Fencing:   locker.FencingDurable,
		Clocks:    locker.ClocksServer, // its timeouts count by the wall clock: a jump ahead ends a silent session early
		Order:     locker.OrderQueue,
		Waiting:   locker.WaitingHandOff,
		Expiry: locker.Expiry{
			By:    locker.ExpiryConnection,
			TTL:   true,
			Slack: 500 * time.Millisecond,
		},
		Revocation: locker.RevocationAtOnce,
		Restart:    locker.RestartTokens,
		Inspection: locker.InspectionQueue,
		Break:      locker.BreakSeenAtRenewal,
		RoundTrips: 1,
		Cost:       locker.CostLow,
	}
}
