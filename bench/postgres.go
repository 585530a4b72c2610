package main

import (
	"context"
	"errors"
	"fmt"
	"time"

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
		"-c", "max_locks_per_transaction=256")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, server.stop())
		}
	}()
	p := postgresAt(fmt.Sprintf("127.0.0.1:%d", port))
	admin, err := pgxpool.New(ctx, p.withUser("postgres"))
	if err != nil {
		return nil, err
	}
	if err := retry(ctx, func(ctx context.Context) error { return admin.Ping(ctx) }); err != nil {
		return nil, err
	}
	for _, statement := range []string{
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
		description: "Postgres " + version,
		addrs:       []string{p.Host},
		servers:     []*container{server},
		stop: func() error {
			admin.Close()
			return server.stop()
		},
	}, nil
}

func postgresPeers(addrs []string) peers {
	p := postgresAt(addrs[0])
	return peers{
		bare:    p.selectOne(),
		byHand:  p.advisoryLock(),
		load:    []peer{p.locker(), p.pglock()},
		handOff: []peer{p.advisoryLock(), p.locker(), p.pglock()},
		// The others need a connection for each lease, or don't finish in time.
		heldLeases: []peer{p.locker()},
		waiters:    []peer{p.locker()},
	}
}

func postgresGoals() []goal {
	goals := []goal{
		{scenario: heldLeasesName, metric: "heap", limit: 12},
		{scenario: heldLeasesName, metric: "goroutines", limit: 100},
		{scenario: heldLeasesName, metric: "round trips", limit: 20},
	}
	goals = append(goals, throughputGoals(0, map[int]float64{1: 1, 2: 1, 4: 1, 8: 1, 16: 1, 64: 4, 512: 6})...)
	goals = append(goals, throughputGoals(500*time.Microsecond, map[int]float64{1: 0.95, 4: 0.95, 16: 0.95})...)
	goals = append(goals, throughputGoals(5*time.Millisecond, map[int]float64{1: 0.98, 4: 0.98, 16: 0.98, 64: 0.95})...)
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
