//go:build unix

package pg

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fencedlock/locker/integration/internal/itest"
)

// Start starts one server.
func Start(ctx context.Context, image string) (*Service, error) {
	return startPgWith(ctx, image, pgSettings...)
}

// StartImpatient starts a server whose own settings end a connection after a second or two without
// an answer.
func StartImpatient(ctx context.Context, image string) (*Service, error) {
	return startPgWith(ctx, image, pgCounting, "max_connections=200", "tcp_keepalives_idle=1", "tcp_keepalives_interval=1", "tcp_keepalives_count=1",
		"tcp_user_timeout=1500", "client_connection_check_interval=500")
}

func startPgWith(ctx context.Context, image string, settings ...string) (*Service, error) {
	ports, err := itest.FreePorts(1)
	if err != nil {
		return nil, err
	}
	node, err := startPgNode(ctx, pgNodeConfig{image: image, port: ports[0], settings: settings})
	if err != nil {
		return nil, err
	}
	s := &Service{nodes: []*pgNode{node}, URL: pgURL(pgUser, pgPassword, pgDatabase, ports[0])}
	if err := node.create(ctx); err != nil {
		return nil, err
	}
	return s, s.wait(ctx)
}

// pgCounting makes the server count statements for each role.
const pgCounting = "shared_preload_libraries=pg_stat_statements"

// pgSettings are the settings that the suite needs in addition: 50 Lockers that wait at the same
// time have two connections each.
var pgSettings = []string{pgCounting, "max_connections=200"}

// startPgReplica starts a primary and a replica that streams from it.
func startPgReplica(ctx context.Context, image string) (*Service, error) {
	ports, err := itest.FreePorts(2)
	if err != nil {
		return nil, err
	}
	shared, err := itest.SharedNetwork(ctx, image, ports)
	if err != nil {
		return nil, err
	}
	s := &Service{URL: pgURL(pgUser, pgPassword, pgDatabase, ports[0], ports[1]) + "&target_session_attrs=read-write", failing: true}
	for i, port := range ports {
		node, err := startPgNode(ctx, pgNodeConfig{image: image, port: port, peer: ports[1-i], inside: shared, settings: pgSettings})
		if err != nil {
			return nil, err
		}
		s.nodes = append(s.nodes, node)
		if i == 0 {
			if err := node.create(ctx); err != nil {
				return nil, err
			}
		}
	}
	return s, s.wait(ctx)
}

// These are the databases of the bouncer. They differ in how the bouncer shares connections among
// clients. On the server all of them are the same database.
const (
	sessionMode     = pgDatabase
	transactionMode = pgDatabase + "_by_transaction"
	statementMode   = pgDatabase + "_by_statement"
	oneConnection   = pgDatabase + "_by_transaction_on_one" // for all clients
)

// StartBouncer starts a server with PgBouncer in front of it.
func StartBouncer(ctx context.Context, image string) (*Service, error) {
	return startPgBouncerWith(ctx, image)
}

// startPgBouncerWith is startPgBouncer with more lines in PgBouncer's configuration.
func startPgBouncerWith(ctx context.Context, image string, settings ...string) (*Service, error) {
	ports, err := itest.FreePorts(2)
	if err != nil {
		return nil, err
	}
	shared, err := itest.SharedNetwork(ctx, image, ports)
	if err != nil {
		return nil, err
	}
	node, err := startPgNode(ctx, pgNodeConfig{image: image, port: ports[0], inside: shared, settings: pgSettings})
	if err != nil {
		return nil, err
	}
	if err := node.create(ctx); err != nil {
		return nil, err
	}
	bouncer, err := itest.Start(ctx, itest.Spec{
		Image: "pgbouncer", Args: []string{"pgbouncer", "/etc/pgbouncer/pgbouncer.ini"}, Files: bouncerConfig(ports[1], ports[0], settings...), Inside: shared,
	})
	if err != nil {
		return nil, err
	}
	s := &Service{nodes: []*pgNode{node}, bouncer: bouncer, port: ports[1], URL: pgURL(pgUser, pgPassword, sessionMode, ports[1])}
	return s, s.wait(ctx)
}

// bouncerConfig returns the settings of PgBouncer that differ from the defaults. PgBouncer waits
// for a client that acknowledges nothing for longer than any TTL, as docs/postgres.md demands. It
// asks a server that was down again after one second, so that tests don't wait for the default of
// fifteen seconds.
func bouncerConfig(port, server int, settings ...string) map[string]string {
	lines := []string{"[databases]"}
	for name, mode := range map[string]string{
		sessionMode: "session pool_size=160", transactionMode: "transaction", statementMode: "statement", oneConnection: "transaction pool_size=1",
	} {
		lines = append(lines, fmt.Sprintf("%s = host=127.0.0.1 port=%d dbname=%s pool_mode=%s", name, server, pgDatabase, mode))
	}
	lines = append(lines,
		"[pgbouncer]",
		"listen_addr = 0.0.0.0",
		fmt.Sprint("listen_port = ", port),
		"unix_socket_dir =",
		"auth_type = scram-sha-256",
		"auth_file = /etc/pgbouncer/userlist.txt",
		"max_client_conn = 1000",
		"server_login_retry = 1",
		fmt.Sprint("tcp_user_timeout = ", time.Hour.Milliseconds()),
	)
	lines = append(lines, settings...)
	return map[string]string{
		"/etc/pgbouncer/pgbouncer.ini": strings.Join(lines, "\n") + "\n",
		"/etc/pgbouncer/userlist.txt":  fmt.Sprintf("%q %q\n%q %q\n", pgUser, pgPassword, pgAdmin, pgPassword),
	}
}
