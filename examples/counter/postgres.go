package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence/fencepg"
)

// postgres keeps the number in a row, and its mark in the table of fencepg. Each step is a
// transaction that claims before it reads.
type postgres struct {
	pool   *pgxpool.Pool
	name   string
	fenced bool
}

func openPostgres(ctx context.Context, url, name string, fenced bool) (store, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	// A real service has these statements in its migrations. Two processes that run them at once
	// would collide without the lock.
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for _, statement := range []string{
			`SELECT pg_advisory_xact_lock(hashtext('examples/counter'))`,
			fencepg.Migration(),
			`CREATE TABLE IF NOT EXISTS counters (name text PRIMARY KEY, n bigint NOT NULL)`,
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &postgres{pool, name, fenced}, nil
}

func (s *postgres) Read(ctx context.Context, token locker.Token) (n int64, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if err := s.claim(ctx, tx, token); err != nil {
			return err
		}
		n, err = s.look(ctx, tx)
		return err
	})
	return n, err
}

func (s *postgres) Write(ctx context.Context, token locker.Token, n int64) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if err := s.claim(ctx, tx, token); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO counters VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET n = excluded.n`, s.name, n)
		return err
	})
}

func (s *postgres) Look(ctx context.Context) (int64, error) { return s.look(ctx, s.pool) }

func (s *postgres) Close() { s.pool.Close() }

func (s *postgres) claim(ctx context.Context, tx pgx.Tx, token locker.Token) error {
	if !s.fenced {
		return nil
	}
	return fencepg.Claim(ctx, tx, s.name, token)
}

func (s *postgres) look(ctx context.Context, db interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}) (n int64, err error) {
	err = db.QueryRow(ctx, `SELECT n FROM counters WHERE name = $1`, s.name).Scan(&n)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return n, err
}
