//go:build unix

package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
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
