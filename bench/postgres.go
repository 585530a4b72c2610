package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5/pgxpool"
)

const pgPassword = "bench"

// startPostgres starts one server, which writes its log to the disk before it answers, as it does
// by default.
func startPostgres(ctx context.Context) (_ *service, err error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	server, err := startServer(ctx, "postgres", "env", "POSTGRES_PASSWORD="+pgPassword, "docker-entrypoint.sh",
		"postgres", "-c", "listen_addresses=127.0.0.1", "-p", fmt.Sprint(port), "-c", "max_connections=400",
		// 10,000 leases need more than half of the default lock table.
		"-c", "max_locks_per_transaction=256",
		"-c", "shared_preload_libraries=pg_stat_statements")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, server.stop())
		}
	}()
	p := postgresURL(url.URL{Scheme: "postgres", Host: fmt.Sprintf("127.0.0.1:%d", port), Path: "/postgres", RawQuery: "sslmode=disable"})
	admin, err := pgxpool.New(ctx, p.withUser("postgres"))
	if err != nil {
		return nil, err
	}
	if err := retry(ctx, func(ctx context.Context) error { return admin.Ping(ctx) }); err != nil {
		return nil, err
	}
	for _, statement := range []string{
		"CREATE EXTENSION pg_stat_statements",
		"CREATE ROLE locks LOGIN PASSWORD '" + pgPassword + "'",
		"GRANT CREATE ON DATABASE postgres TO locks",
		"GRANT CREATE ON SCHEMA public TO locks",
		"CREATE SEQUENCE by_hand",
		"GRANT USAGE ON SEQUENCE by_hand TO locks",
	} {
		if _, err := admin.Exec(ctx, statement); err != nil {
			return nil, err
		}
	}
	var version string
	if err := admin.QueryRow(ctx, "SHOW server_version").Scan(&version); err != nil {
		return nil, err
	}
	if err := p.createPglockTable(ctx); err != nil {
		return nil, err
	}
	return &service{
		description:  "Postgres " + version,
		bare:         p.selectOne(),
		byHand:       p.advisoryLock(),
		loadPeers:    []peer{p.locker(), p.pglock()},
		handOffPeers: []peer{p.advisoryLock(), p.locker(), p.pglock()},
		// The others need a connection for each lease, or don't finish in time.
		heldLeasePeers: []peer{p.locker()},
		waiterPeers:    []peer{p.locker()},
		goals:          postgresGoals(),
		requestCounts:  func(ctx context.Context) (map[string]int64, error) { return statementCounts(ctx, admin) },
		servers:        []*container{server},
		stop: func() error {
			admin.Close()
			return server.stop()
		},
	}, nil
}

// statementCounts returns how many statements the role of the peers has executed.
func statementCounts(ctx context.Context, admin *pgxpool.Pool) (map[string]int64, error) {
	var n int64
	err := admin.QueryRow(ctx, `SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid
		WHERE r.rolname = 'locks'`).Scan(&n)
	return map[string]int64{"statement": n}, err
}

func postgresGoals() []goal {
	goals := []goal{
		{scenario: loadName(1), metric: "median", ratio: true, limit: 2.5},
		{scenario: loadName(64), metric: "throughput", ratio: true, atLeast: true, limit: 2},
		{scenario: heldLeasesName, metric: "heap", limit: 12},
		{scenario: heldLeasesName, metric: "goroutines", limit: 100},
		{scenario: heldLeasesName, metric: "round trips", limit: 20},
	}
	for _, n := range contenderCounts {
		goals = append(goals,
			goal{scenario: handOffName(n), metric: "gap, median", relativeTo: pgByHand, limit: 1.1},
			goal{scenario: handOffName(n), metric: "requests an acquisition", limit: 2.5})
	}
	for _, n := range lockerCounts {
		goals = append(goals, waitersGoals(n)...)
	}
	return goals
}
