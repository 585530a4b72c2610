//go:build unix

package pg

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"regexp"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/pgbackend"
)

// A lease that moves, which a test stops before each of the statements of the move.

// pgSteps are the statements of a move in their order.
var pgSteps = []*regexp.Regexp{
	regexp.MustCompile(`^SELECT CASE WHEN pg_advisory_lock_shared\(`),
	regexp.MustCompile(`pg_try_advisory_lock_shared\(`),
	regexp.MustCompile(`^SELECT pg_advisory_unlock_shared\([^,]*\)$`),
	regexp.MustCompile(`^SELECT CASE WHEN pg_try_advisory_lock\([^,]*\) THEN pg_advisory_unlock_shared\(`),
	regexp.MustCompile(`^SELECT pg_advisory_unlock\([^,]*::integer, [^,]*::integer\)$`),
}

// stepConn calls before with the number of a step, from 1 to 5, and sends its statement then.
type stepConn struct {
	net.Conn
	before func(step int)
}

func (c *stepConn) Write(b []byte) (int, error) {
	for _, sql := range statementsIn(b) {
		for i, step := range pgSteps {
			if step.MatchString(sql) {
				c.before(i + 1)
			}
		}
	}
	return c.Conn.Write(b)
}

// statementsIn returns the statements in what is written at a time, which is whole messages of the
// protocol: statements ('Q'), and function calls ('F'), of which there may be some before and after.
// The message that begins a connection has no type.
func statementsIn(b []byte) (statements []string) {
	const header = 5 // the type, and the length, which counts itself
	for len(b) >= header && b[0] != 0 {
		size := 1 + int(binary.BigEndian.Uint32(b[1:]))
		if size < header || size > len(b) {
			break
		}
		if b[0] == 'Q' {
			statements = append(statements, string(b[header:size-1]))
		}
		b = b[size:]
	}
	return statements
}

// pgMover is a Locker with a lease that is about to move, and what its sessions are called on the
// server.
type pgMover struct {
	s        *Service
	l        locker.Locker
	lease    locker.Lease
	name     string
	app      string
	waiterOf string // SQL: the pids of the waiter's session
	sharedOf string // and of the shared one
}

const pgMoverTTL = 3 * itest.ShortTTL

// mover waits for a lock, and calls before for the steps of the lease's move, each time that one is
// sent.
func (s *Service) mover(t conformance.T, before func(m *pgMover, step int)) *pgMover {
	t.Helper()
	m := &pgMover{s: s, name: step.LockName(t), app: fmt.Sprintf("mover %x", pgKey(step.LockName(t)))}
	gate := fmt.Sprintf("exists (select from %s and granted and objsubid = 2 and l.pid = a.pid%s%d)", ofLocksAs("l"), ofKey, pgKey(m.name))
	m.waiterOf = fmt.Sprintf("pg_stat_activity a where application_name = '%s' and %s", m.app, gate)
	m.sharedOf = fmt.Sprintf("pg_stat_activity a where application_name = '%s' and not %s", m.app, gate)
	config, err := pgxpool.ParseConfig(s.URL)
	if err != nil {
		t.Fatalf("%v", err)
	}
	config.ConnConfig.RuntimeParams["application_name"] = m.app
	var ready sync.WaitGroup
	ready.Add(1)
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &stepConn{conn, func(step int) { ready.Wait(); before(m, step) }}, err
	}
	if m.l, err = pgbackend.New(t.Context(), config, pgbackend.WithDefaultTTL(pgMoverTTL)); err != nil {
		t.Fatalf("New = %v", err)
	}
	step.CloseAtEnd(t, m.l)
	lease := step.Acquire(t, step.CloseAtEnd(t, s.open(t)), m.name)
	waiter := step.StartAcquire(t, m.l, m.name)
	step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, m.name, 1) })
	step.Release(t, lease)
	m.lease = waiter.Granted(t, itest.ShortWait)
	ready.Done()
	return m
}

func ofLocksAs(alias string) string {
	return regexp.MustCompile(`^pg_locks`).ReplaceAllString(ofLocks, "pg_locks "+alias)
}

// refused is an error if a third session is granted the lock: exclusively, or in shared mode, for
// which it needs the gate first.
func (m *pgMover) refused(when string) error {
	ctx, cancel := context.WithTimeout(context.Background(), step.Limit)
	defer cancel()
	n, err := m.s.leader(ctx)
	if err != nil {
		return err
	}
	key := pgKey(m.name)
	exclusive, err := pgValue[bool](ctx, n, "select pg_try_advisory_xact_lock($1)", key)
	if err != nil {
		return err
	}
	inSharedMode, err := pgValue[bool](ctx, n, `select case when pg_try_advisory_xact_lock_shared($1::int4, $2::int4)
		then pg_try_advisory_xact_lock_shared($3) else false end`, int32(key>>32), int32(key), key)
	if exclusive || inSharedMode {
		err = errors.Join(err, fmt.Errorf("%s a third session is granted the lock exclusively: %v, in shared mode: %v, want neither", when, exclusive, inSharedMode))
	}
	return err
}

// modes are those in which a session holds the lock, by the text of pg_locks.
func (m *pgMover) modes(t conformance.T, of string) string {
	t.Helper()
	return admin[string](t, m.s, "select coalesce(string_agg(mode, ' ' order by mode), '') from "+pgHeld+ofKey+"$1 and pid in (select pid from "+of+")", pgKey(m.name))
}

// hasMoved is an error until the shared session has the lock exclusively, and nobody has the gate.
func (m *pgMover) hasMoved(t conformance.T) error {
	t.Helper()
	if modes := m.modes(t, m.sharedOf); modes != "ExclusiveLock" {
		return fmt.Errorf("the shared session has the lock in modes %q, want ExclusiveLock alone", modes)
	}
	if n := admin[int](t, m.s, "select count(*) from "+ofLocks+" and objsubid = 2"+ofKey+"$1", pgKey(m.name)); n != 0 {
		return fmt.Errorf("%d sessions have the gate, want none", n)
	}
	return nil
}
