//go:build unix

package pg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker/integration/internal/itest"
)

// pgNode is one server.
type pgNode struct {
	*itest.Container
	port  int
	admin *pgxpool.Pool // connections of the superuser, in the database of the locks
}

const (
	pgAdmin    = "postgres"
	pgUser     = "lock_user"
	pgDatabase = "locks"
)

var pgPassword = rand.Text() // of both

// pgNodeConfig is the configuration of a node.
type pgNodeConfig struct {
	image    string
	port     int
	inside   *itest.Container  // whose network it shares, or nil
	peer     int               // the port of the other node; the node that starts second follows the primary
	settings []string          // name=value
	files    map[string]string // in addition to the script
	before   string            // what the script does first
}

// script returns the script that runs in a node's container. A node that finds another primary at
// its start deletes its own data and follows that primary. Its files must survive a crash of the
// process, but not a crash of the machine: so it doesn't wait for the disk, which others use as
// well, unless a case asks for that; see waitForDisk.
func (c pgNodeConfig) script() string {
	lines := []string{
		"set -eu",
		"export POSTGRES_USER=" + pgAdmin + " POSTGRES_PASSWORD=" + pgPassword + " POSTGRES_INITDB_ARGS=--no-sync",
		c.before,
	}
	if c.peer != 0 {
		lines = append(lines,
			fmt.Sprintf("peer='host=127.0.0.1 port=%d user=%s password=%s dbname=postgres connect_timeout=2'", c.peer, pgAdmin, pgPassword),
			`if [ "$(psql "$peer" -Atc 'select not pg_is_in_recovery()' 2>/dev/null)" = t ]; then`,
			`	find "$PGDATA" -mindepth 1 -delete`,
			`	pg_basebackup --dbname="$peer" --pgdata="$PGDATA" --checkpoint=fast --no-sync --write-recovery-conf`,
			`fi`,
		)
	}
	// A setting of the command line could not be changed by a case.
	lines = append(lines,
		"docker-entrypoint.sh postgres -C data_directory", // makes the files, unless they exist
		`grep -q '^fsync' "$PGDATA/postgresql.conf" || echo 'fsync = off' >>"$PGDATA/postgresql.conf"`,
	)
	command := "exec docker-entrypoint.sh postgres"
	for _, setting := range append([]string{"port=" + strconv.Itoa(c.port)}, c.settings...) {
		command += " -c '" + setting + "'"
	}
	return strings.Join(append(lines, command), "\n") + "\n"
}

// startPgNode starts a node, and doesn't wait until it is ready.
func startPgNode(ctx context.Context, c pgNodeConfig) (*pgNode, error) {
	files := map[string]string{"/node.sh": c.script()}
	for path, text := range c.files {
		files[path] = text
	}
	r := itest.Spec{Image: c.image, Args: []string{"bash", "/node.sh"}, Files: files, Inside: c.inside}
	if c.inside == nil {
		r.Ports = []int{c.port}
	}
	started, err := itest.Start(ctx, r)
	if err != nil {
		return nil, err
	}
	admin, err := pgPool(pgURL(pgAdmin, pgPassword, pgDatabase, c.port))
	return &pgNode{started, c.port, admin}, err
}

// pgPool returns a pool for the tests. It is for single statements: the simple protocol leaves no
// state on a connection.
func pgPool(rawURL string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(rawURL)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 4
	config.ConnConfig.ConnectTimeout = 2 * time.Second
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	config.ConnConfig.RuntimeParams["application_name"] = "tests"
	return pgxpool.NewWithConfig(context.Background(), config)
}

// pgURL returns a URL with the addresses of all ports of this host.
func pgURL(user, password, database string, port int, more ...int) string {
	host := itest.LocalAddr(port)
	for _, p := range more {
		host += "," + itest.LocalAddr(p)
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(user, password), Host: host, Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// create creates the role and the database of the locks, unless they exist.
func (n *pgNode) create(ctx context.Context) error {
	root, err := pgPool(pgURL(pgAdmin, pgPassword, "postgres", n.port))
	if err != nil {
		return err
	}
	defer root.Close()
	return itest.Until(ctx, func(ctx context.Context) error {
		for _, statement := range []string{
			"create role " + pgUser + " login password '" + pgPassword + "'",
			"create database " + pgDatabase + " owner " + pgUser,
		} {
			var there *pgconn.PgError
			if _, err := root.Exec(ctx, statement); err != nil && (!errors.As(err, &there) || there.Code != "42710" && there.Code != "42P04") {
				return err
			}
		}
		_, err := n.admin.Exec(ctx, "create extension if not exists pg_stat_statements")
		return err
	})
}

// primary returns nil when the node accepts writes.
func (n *pgNode) primary(ctx context.Context) error {
	replica, err := pgValue[bool](ctx, n, "select pg_is_in_recovery()")
	if err == nil && replica {
		err = fmt.Errorf("the server at port %d is a replica", n.port)
	}
	return err
}

// exec executes a statement as the superuser.
func (n *pgNode) exec(ctx context.Context, statement string) error {
	if err := n.admin.Ping(ctx); err != nil { // of a server that was restarted
		n.admin.Reset()
	}
	_, err := n.admin.Exec(ctx, statement)
	return err
}

// pgValue returns the single value of a query of the superuser. It replaces a connection that broke
// because the server ended.
func pgValue[T any](ctx context.Context, n *pgNode, query string, args ...any) (value T, err error) {
	for range n.admin.Config().MaxConns + 1 {
		err = n.admin.QueryRow(ctx, query, args...).Scan(&value)
		var answer *pgconn.PgError
		if err == nil || errors.Is(err, pgx.ErrNoRows) || errors.As(err, &answer) && answer.Code[:2] != "57" { // it was ended
			break
		}
	}
	return value, err
}
