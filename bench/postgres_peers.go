package main

import (
	"context"
	"database/sql"
	"errors"
	"hash/fnv"
	"io"
	"log"
	"net/url"
	"sync/atomic"
	"time"

	"cirello.io/pglock"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/fencedlock/locker/pgbackend"
)

// postgresURL is the URL of the server, without a user.
type postgresURL url.URL

func (p postgresURL) withUser(user string) string {
	u := url.URL(p)
	u.User = url.UserPassword(user, pgPassword)
	return u.String()
}

// config returns the configuration of a pool of 64 connections that counts its messages.
func (p postgresURL) config() (*pgxpool.Config, *statementCounter, error) {
	c, err := pgxpool.ParseConfig(p.withUser("locks"))
	if err != nil {
		return nil, nil, err
	}
	c.MaxConns = 64
	count := new(statementCounter)
	c.ConnConfig.Tracer = count
	return c, count, nil
}

// statementCounter counts the statements that a client sends.
type statementCounter struct{ n atomic.Int64 }

func (s *statementCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

func (s *statementCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

var pgCommands = []string{"statement"}

// selectOne is the bare request.
func (p postgresURL) selectOne() peer {
	return peer{"SELECT 1", pgCommands, 0, func(ctx context.Context) (*client, error) {
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
	return peer{pgByHand, pgCommands, 0, func(ctx context.Context) (*client, error) {
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

func (p postgresURL) pooled(ctx context.Context, lock func(context.Context, *pgxpool.Conn, string) (release, error)) (*client, error) {
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
		messages: count.n.Load,
	}, nil
}

func (p postgresURL) locker() peer {
	return peer{thisProject, pgCommands, ttl / 3, func(ctx context.Context) (*client, error) {
		config, count, err := p.config()
		if err != nil {
			return nil, err
		}
		l, err := pgbackend.New(ctx, config, pgbackend.WithDefaultTTL(ttl))
		if err != nil {
			return nil, err
		}
		return lockerClient(l, func() {}, count.n.Load), nil
	}}
}

// pglock stores a row for each lock, and polls. Its table is created once.
func (p postgresURL) pglock() peer {
	return peer{"pglock", pgCommands, 10 * time.Second, func(context.Context) (*client, error) {
		db, l, err := p.openPglock()
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
			close: func() { _ = db.Close() },
		}, nil
	}}
}

func (p postgresURL) openPglock() (*sql.DB, *pglock.Client, error) {
	db, err := sql.Open("pgx", p.withUser("locks"))
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(64)
	db.SetMaxIdleConns(64)
	l, err := pglock.UnsafeNew(db, pglock.WithLeaseDuration(ttl), pglock.WithHeartbeatFrequency(10*time.Second),
		pglock.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, l, nil
}

func (p postgresURL) createPglockTable(context.Context) error {
	db, l, err := p.openPglock()
	if err != nil {
		return err
	}
	return errors.Join(l.TryCreateTable(), db.Close())
}
