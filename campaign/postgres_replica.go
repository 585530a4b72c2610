package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// startPostgresReplica starts a primary, and a replica that streams from it. The primary doesn't wait
// for the replica.
func startPostgresReplica(ctx context.Context) (_ *service, err error) {
	s, addrs, err := newServers(ctx, 2)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	v := &service{servers: s, addrs: addrs, promote: func(ctx context.Context, former int) error { return promote(ctx, addrs[1-former]) }}
	v.leader = func(ctx context.Context, former int) (int, error) {
		for i, addr := range addrs {
			if i != former && isPrimary(ctx, addr) {
				return i, nil
			}
		}
		return nobody, ctx.Err()
	}
	for i, addr := range addrs {
		err := s.start(ctx, "postgres", []string{"--env", "POSTGRES_PASSWORD=" + postgresPassword},
			"bash", "-c", replicatedScript(portOf(addr), portOf(addrs[1-i])))
		if err != nil {
			return nil, err
		}
		if _, err := v.findLeader(ctx, nobody); err != nil { // the second one follows it
			return nil, err
		}
	}
	v.prepare = func(ctx context.Context) error {
		leader, err := v.leader(ctx, nobody)
		if err != nil || leader == nobody {
			return errors.Join(err, errors.New("there is no primary"))
		}
		version, err := preparePostgres(ctx, addrs[leader], 0)
		v.version = version + ", a primary with a replica"
		return errors.Join(err, isFollowed(ctx, addrs[leader]))
	}
	return v, v.ready(ctx)
}

// replicatedScript starts a server. If the other one is a primary then, the server replaces its own
// data by a copy, and follows.
func replicatedScript(port, other string) string {
	return fmt.Sprintf(`set -eu
primary='host=127.0.0.1 port=%s user=postgres password=%s dbname=postgres connect_timeout=2'
if [ "$(psql "$primary" -Atc 'select not pg_is_in_recovery()' 2>/dev/null)" = t ]; then
	find "$PGDATA" -mindepth 1 -delete
	pg_basebackup --dbname="$primary" --pgdata="$PGDATA" --checkpoint=fast --write-recovery-conf
fi
exec docker-entrypoint.sh postgres -p %s
`, other, postgresPassword, port)
}

// promote makes a replica the primary, as an operator does when the primary is gone.
func promote(ctx context.Context, addr string) error {
	return onPostgres(ctx, addr, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SELECT pg_promote()")
		return err
	})
}

func isPrimary(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, statusLimit)
	defer cancel()
	replica := true
	err := onPostgres(ctx, addr, func(c *pgx.Conn) error { return c.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&replica) })
	return err == nil && !replica
}

// isFollowed returns nil when a replica has all that the primary has written.
func isFollowed(ctx context.Context, primary string) error {
	return onPostgres(ctx, primary, func(c *pgx.Conn) error {
		n := 0
		err := c.QueryRow(ctx, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND replay_lsn = pg_current_wal_lsn()").Scan(&n)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d replicas follow the primary", n)
		}
		return err
	})
}

func onPostgres(ctx context.Context, addr string, do func(c *pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, postgresURL("postgres", addr))
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.Close(context.WithoutCancel(ctx)))
}

// replicaPromises is what a Locker with the addresses of several servers promises.
func replicaPromises() locker.Guarantees {
	g := pgbackend.Guarantees()
	g.Tolerance = locker.ToleranceFailover
	return g
}

// postgresHosts are the addresses of all servers, of which clients use the primary.
func postgresHosts(addrs []string) (hosts, parameters string) {
	parameters = "sslmode=disable"
	if len(addrs) > 1 {
		parameters += "&target_session_attrs=read-write"
	}
	return strings.Join(addrs, ","), parameters
}
