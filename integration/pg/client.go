//go:build unix

package pg

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/pgbackend"
)

// These are the names of locks on the server, as docs/postgres.md documents them, for the default
// prefix and schema.

// pgKey returns the key of a lock in pg_locks, in the space of 64-bit keys. In the space of pairs
// of 32 bits the same number is the key of the lock's gate, for which all waiters except the first
// wait.
func pgKey(name string) int64 {
	hash := sha256.Sum256([]byte("locker:\x00" + name))
	return int64(binary.BigEndian.Uint64(hash[:]))
}

// pgStored lists everything that may be stored.
var pgStored = []string{"locker.locker_token", "locker.locker_epoch", "locker.locker_lease"}

const (
	pgSequence = "locker.locker_token"

	pgAdvisory = "pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())"
	pgPresent  = pgAdvisory + " and objsubid = 2 and classid = 1819239275 and granted" // the presence locks and marks of connections

	// ofLocks selects the locks in pg_locks of the current database, without the connections' own locks.
	ofLocks   = pgAdvisory + " and not (objsubid = 2 and classid = 1819239275)"
	pgHeld    = ofLocks + " and granted and objsubid = 1"
	pgAwaited = ofLocks + " and not granted"
	ofKey     = " and classid::int8 << 32 | objid::int8 = "

	// pgConnections is the number of a Locker's connections: for leases and requests, and for
	// waiters.
	pgShared, pgWaiters = 4, 8
)

// concrete returns the Locker as the type that Open returns for URLs of Postgres.
func concrete(l locker.Locker) *pgbackend.Locker { return l.(*pgbackend.Locker) } //nolint:forcetypeassert // else the test is wrong

// dialled opens a Locker whose connections are made by dial.
func (s *Service) dialled(t conformance.T, dial pgconn.DialFunc, opts ...pgbackend.Option) locker.Locker {
	t.Helper()
	config, err := pgxpool.ParseConfig(s.URL)
	if err != nil {
		t.Fatalf("%v", err)
	}
	config.ConnConfig.DialFunc = dial
	l, err := pgbackend.New(t.Context(), config, opts...)
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	return l
}

// proxied gives the Locker a network of its own.
func (s *Service) proxied(t conformance.T) (locker.Locker, *proxy.Network) {
	t.Helper()
	network := proxy.Start(t)
	return s.dialled(t, network.Dial), network
}

func (s *Service) linked(t conformance.T) (locker.Locker, conformance.Link) {
	t.Helper()
	return s.proxied(t)
}

func (s *Service) narrow(t conformance.T) locker.Locker {
	t.Helper()
	return itest.OpenURL(t, s.with("waiter_connections", "1"))
}
