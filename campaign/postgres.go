package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"net/url"
	"time"

	"cirello.io/pglock"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// postgresPassword protects nothing: the server is for this run alone.
const postgresPassword = "campaign"

// startPostgres starts one server with its default settings.
func startPostgres(ctx context.Context) (_ *service, err error) {
	s, addrs, err := newServers(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	err = s.start(ctx, "postgres", []string{"--env", "POSTGRES_PASSWORD=" + postgresPassword},
		"docker-entrypoint.sh", "postgres", "-p", portOf(addrs[0]))
	if err != nil {
		return nil, err
	}
	v := &service{servers: s, addrs: addrs}
	epoch := 0
	v.prepare = func(ctx context.Context) (err error) {
		v.version, err = preparePostgres(ctx, addrs[0], epoch)
		if err == nil {
			epoch += epochStep
		}
		return err
	}
	return v, v.ready(ctx)
}

// epochStep is far more than a server's epoch rises by before it is prepared again.
const epochStep = 10

// preparePostgres makes the role and the tables that the libraries need, unless they exist. Tokens
// begin above the epoch. It returns the server's version.
func preparePostgres(ctx context.Context, addr string, epoch int) (version string, err error) {
	pool, err := pgxpool.New(ctx, postgresURL("postgres", addr))
	if err != nil {
		return "", err
	}
	defer pool.Close()
	if err := pool.QueryRow(ctx, "SHOW server_version").Scan(&version); err != nil {
		return "", err
	}
	_, err = pool.Exec(ctx, `DO $$ BEGIN
		IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'locks') THEN
			CREATE ROLE locks LOGIN PASSWORD '`+postgresPassword+`';
		END IF; END $$;
		GRANT CREATE ON DATABASE postgres TO locks; GRANT CREATE ON SCHEMA public TO locks`)
	if err != nil {
		return "", err
	}
	own, err := pgxpool.New(ctx, postgresURL("locks", addr))
	if err != nil {
		return "", err
	}
	defer own.Close()
	if err := migrate(ctx, own, epoch); err != nil {
		return "", err
	}
	db, l, err := pglockAt(site{addrs: []string{addr}, ttl: time.Minute})
	if err != nil {
		return "", err
	}
	return "Postgres " + version, errors.Join(l.TryCreateTable(), db.Close())
}

// migrate makes the schema where it is missing. After a start without data an operator does that, with
// an epoch above all before (docs/postgres.md, "After the loss of all data"): until then a Locker that
// was open before grants nothing, because tokens would repeat.
func migrate(ctx context.Context, pool *pgxpool.Pool, epoch int) error {
	exists := false
	err := pool.QueryRow(ctx, "SELECT to_regclass('locker.locker_epoch') IS NOT NULL").Scan(&exists)
	if err != nil || exists {
		return err
	}
	_, err = pool.Exec(ctx, fmt.Sprintf("BEGIN;\n%s\nUPDATE locker.locker_epoch SET epoch = greatest(epoch, %d); COMMIT",
		pgbackend.Migration("locker"), epoch))
	return err
}

var postgresLibraries = []library{
	lockerLibrary("", func(ctx context.Context, s site) (locker.Locker, func(), error) {
		config, err := postgresConfig(s)
		if err != nil {
			return nil, nil, err
		}
		l, err := pgbackend.New(ctx, config, pgbackend.WithDefaultTTL(s.ttl))
		return l, func() {}, err
	}),
	{name: "advisory lock", setUp: "pg_advisory_lock and pg_advisory_unlock on a connection of a pool; TCP settings of the system",
		neverExpires: true, open: openAdvisoryLock},
	{name: "pglock", setUp: "heartbeats at a third of the lease", looks: "IsReleased", open: openPglock},
}

func postgresURL(user string, addrs ...string) string {
	hosts, parameters := postgresHosts(addrs)
	u := url.URL{Scheme: "postgres", User: url.UserPassword(user, postgresPassword), Host: hosts, Path: "/postgres", RawQuery: parameters}
	return u.String()
}

func postgresConfig(s site) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(postgresURL("locks", s.addrs...))
	if err == nil && s.dial != nil {
		config.ConnConfig.DialFunc = s.dial
	}
	return config, err
}

func openAdvisoryLock(ctx context.Context, s site) (*client, error) {
	config, err := postgresConfig(s)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &client{
		lock: func(ctx context.Context, name string) (*holding, error) {
			h := fnv.New64a()
			_, _ = io.WriteString(h, name)
			key := int64(h.Sum64())
			c, err := pool.Acquire(ctx)
			if err != nil {
				return nil, err
			}
			if _, err := c.Exec(ctx, "SELECT pg_advisory_lock($1)", key); err != nil {
				c.Release()
				return nil, err
			}
			return &holding{release: func(ctx context.Context) error {
				defer c.Release()
				_, err := c.Exec(ctx, "SELECT pg_advisory_unlock($1)", key)
				return err
			}}, nil
		},
		close: pool.Close,
	}, nil
}

func openPglock(_ context.Context, s site) (*client, error) {
	db, l, err := pglockAt(s)
	if err != nil {
		return nil, err
	}
	return &client{
		lock: func(ctx context.Context, name string) (*holding, error) {
			// The heartbeats end with their context, and that is ctx by default.
			heartbeats, stop := context.WithCancel(context.WithoutCancel(ctx))
			lock, err := l.AcquireContext(ctx, name, pglock.WithCustomHeartbeatContext(heartbeats))
			if err != nil {
				stop()
				return nil, err
			}
			return &holding{
				held: func() bool { return !lock.IsReleased() },
				release: func(ctx context.Context) error {
					defer stop()
					return l.ReleaseContext(ctx, lock)
				},
			}, nil
		},
		close: func() { _ = db.Close() },
		slack: s.ttl, // a waiter asks again after a lease
	}, nil
}

func pglockAt(s site) (*sql.DB, *pglock.Client, error) {
	config, err := postgresConfig(s)
	if err != nil {
		return nil, nil, err
	}
	db := stdlib.OpenDB(*config.ConnConfig)
	l, err := pglock.UnsafeNew(db, pglock.WithLeaseDuration(s.ttl), pglock.WithHeartbeatFrequency(s.ttl/3),
		pglock.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, l, nil
}
