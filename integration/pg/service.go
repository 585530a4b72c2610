//go:build unix

package pg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/fence/fencepg"
	"github.com/fencedlock/locker/fence/fencesql"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// Service is Postgres in one of its forms of operation, and the faults that can be made in it.
// Lockers have a separate role and database, with exactly the privileges that Postgres gives to the
// owner of a database.
type Service struct {
	nodes   []*pgNode        // a server, or a primary and its replica
	bouncer *itest.Container // a PgBouncer in front of the server, or nil
	port    int              // of the bouncer
	URL     string           // for locker.Open
	failing bool             // a failover is possible
}

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
// well.
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
	command := "exec docker-entrypoint.sh postgres"
	for _, setting := range append([]string{"port=" + strconv.Itoa(c.port), "fsync=off"}, c.settings...) {
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

// exec executes a statement as the superuser.
func (n *pgNode) exec(ctx context.Context, statement string) error {
	if err := n.admin.Ping(ctx); err != nil { // of a server that was restarted
		n.admin.Reset()
	}
	_, err := n.admin.Exec(ctx, statement)
	return err
}

// leader returns the node that accepts writes.
func (s *Service) leader(ctx context.Context) (*pgNode, error) {
	if len(s.nodes) == 1 {
		return s.nodes[0], nil
	}
	var all []error
	for _, n := range s.nodes {
		err := n.primary(ctx)
		if err == nil {
			return n, nil
		}
		all = append(all, err)
	}
	return nil, errors.Join(all...)
}

// ready returns nil when all requests are served: by the primary, by a replica that follows it, and
// through PgBouncer.
func (s *Service) ready(ctx context.Context) error {
	n, err := s.leader(ctx)
	if err != nil {
		return err
	}
	if err := n.primary(ctx); err != nil {
		return err
	}
	if len(s.nodes) > 1 {
		following, err := pgValue[int](ctx, n, "select count(*) from pg_stat_replication where state = 'streaming' and replay_lsn = pg_current_wal_lsn()")
		if err != nil || following != len(s.nodes)-1 {
			return errors.Join(err, fmt.Errorf("%d replicas follow", following))
		}
	}
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// wait returns when the service serves all requests.
func (s *Service) wait(ctx context.Context) error { return itest.Until(ctx, s.ready) }

// containers lists the containers of the service. Those that clients connect to come first.
func (s *Service) containers() (ids []string) {
	if s.bouncer != nil {
		ids = append(ids, s.bouncer.ID)
	}
	for _, n := range s.nodes {
		ids = append(ids, n.ID)
	}
	return ids
}

func (s *Service) pause(t conformance.T) { itest.Docker(t, s.containers(), "pause") }

func (s *Service) resume(t conformance.T) {
	ids := s.containers()
	slices.Reverse(ids)
	itest.Docker(t, ids, "unpause")
}

// down stops all servers in good order.
func (s *Service) down(t conformance.T) { itest.Docker(t, s.containers(), "stop") }

func (s *Service) up(t conformance.T) {
	ids := s.containers()
	slices.Reverse(ids)
	itest.Docker(t, ids, "start")
	itest.Must(t, s.wait)
}

// restart crashes the servers, and starts them with the data that they have written.
func (s *Service) restart(t conformance.T) {
	itest.Docker(t, s.containers(), "kill")
	s.up(t)
}

const (
	fencedTable = `CREATE TABLE IF NOT EXISTS fenced (resource text PRIMARY KEY, value text NOT NULL)`
	fencedWrite = `INSERT INTO fenced VALUES ($1, $2) ON CONFLICT (resource) DO UPDATE SET value = excluded.value`
	fencedRead  = `SELECT value FROM fenced WHERE resource = $1`
)

// FenceURL returns the URL of a database that has the tables of the fence.
func FenceURL(t *testing.T, s *Service) string {
	t.Helper()
	for _, statement := range []string{fencepg.Migration(), fencesql.Migration(), fencedTable} { // the schema may be run again
		if err := s.nodes[0].exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return pgURL(pgAdmin, pgPassword, pgDatabase, s.nodes[0].port)
}
