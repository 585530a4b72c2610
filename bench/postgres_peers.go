package main

import (
	"context"
	"database/sql"
	"errors"
	"hash/fnv"
	"io"
	"log"
	"net/url"
	"time"

	"cirello.io/pglock"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fencedlock/locker/pgbackend"
)

// postgresURL is the URL of the server, without a user.
type postgresURL url.URL

func postgresAt(addr string) postgresURL {
	return postgresURL(url.URL{Scheme: "postgres", Host: addr, Path: "/postgres", RawQuery: "sslmode=disable"})
}

func (p postgresURL) withUser(user string) string {
	u := url.URL(p)
	u.User = url.UserPassword(user, pgPassword)
	return u.String()
}

// config returns the configuration of a pool of 64 connections that counts what it sends.
func (p postgresURL) config() (*pgxpool.Config, *pgRequests, error) {
	c, err := pgxpool.ParseConfig(p.withUser("locks"))
	if err != nil {
		return nil, nil, err
	}
	c.MaxConns = 64
	count := new(pgRequests)
	c.ConnConfig.DialFunc = count.dial(c.ConnConfig.DialFunc)
	return c, count, nil
}

// selectOne is the bare request.
func (p postgresURL) selectOne() peer {
	return peer{"SELECT 1", nil, 0, func(ctx context.Context) (*client, error) {
		return p.pooled(ctx, func(ctx context.Context, c *pgxpool.Conn, _ string) (release, error) {
			_, err := c.Exec(ctx, "SELECT 1")
			c.Release()
			return func(context.Context) error { return nil }, err
		})
	}}
}

const pgByHand = "advisory lock"

// advisoryLock is a lock with a token, written without a library: one statement waits for the lock,
// and one releases it, on the same connection of the pool. The token is not safer than a sequence.
func (p postgresURL) advisoryLock() peer {
	return peer{pgByHand, nil, 0, func(ctx context.Context) (*client, error) {
		return p.pooled(ctx, func(ctx context.Context, c *pgxpool.Conn, name string) (release, error) {
			h := fnv.New64a()
			_, _ = io.WriteString(h, name)
			key := int64(h.Sum64())
			var token int64
			err := c.QueryRow(ctx, "SELECT nextval('by_hand') FROM (SELECT pg_advisory_lock($1)) AS held", key).Scan(&token)
			if err != nil {
				c.Release()
				return nil, err
			}
			return func(ctx context.Context) error {
				defer c.Release()
				_, err := c.Exec(ctx, "SELECT pg_advisory_unlock($1)", key)
				return err
			}, nil
		})
	}}
}

func (p postgresURL) pooled(
	ctx context.Context, lock func(context.Context, *pgxpool.Conn, string) (release, error),
) (*client, error) {
	config, count, err := p.config()
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &client{
		lock: func(ctx context.Context, name string) (release, error) {
			c, err := pool.Acquire(ctx)
			if err != nil {
				return nil, err
			}
			return lock(ctx, c, name)
		},
		close:    pool.Close,
		messages: count.messages.Load,
		requests: count.requests.Load,
	}, nil
}

func (p postgresURL) locker() peer {
	return peer{thisProject, nil, ttl / 3, func(ctx context.Context) (*client, error) {
		config, count, err := p.config()
		if err != nil {
			return nil, err
		}
		l, err := pgbackend.New(ctx, config, pgbackend.WithDefaultTTL(ttl))
		if err != nil {
			return nil, err
		}
		cl := lockerClient(l, func() {}, count.messages.Load)
		cl.requests = count.requests.Load
		cl.settle = ttl / 2 // each lease's row is written after its first renewal
		return cl, nil
	}}
}

// pglock stores a row for each lock, and polls. Its table is created once.
func (p postgresURL) pglock() peer {
	return peer{"pglock", nil, 10 * time.Second, func(context.Context) (*client, error) {
		db, l, count, err := p.openPglock()
		if err != nil {
			return nil, err
		}
		return &client{
			lock: func(ctx context.Context, name string) (release, error) {
				lock, err := l.AcquireContext(ctx, name)
				if err != nil {
					return nil, err
				}
				return func(ctx context.Context) error { return l.ReleaseContext(ctx, lock) }, nil
			},
			close:    func() { _ = db.Close() },
			messages: count.messages.Load,
			requests: count.requests.Load,
		}, nil
	}}
}

func (p postgresURL) openPglock() (*sql.DB, *pglock.Client, *pgRequests, error) {
	config, count, err := p.config()
	if err != nil {
		return nil, nil, nil, err
	}
	db := stdlib.OpenDB(*config.ConnConfig)
	db.SetMaxOpenConns(64)
	db.SetMaxIdleConns(64)
	l, err := pglock.UnsafeNew(db, pglock.WithLeaseDuration(ttl), pglock.WithHeartbeatFrequency(10*time.Second),
		pglock.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		return nil, nil, nil, errors.Join(err, db.Close())
	}
	return db, l, count, nil
}

func (p postgresURL) createPglockTable(context.Context) error {
	db, l, _, err := p.openPglock()
	if err != nil {
		return err
	}
	return errors.Join(l.TryCreateTable(), db.Close())
}
