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

// movePack is leases that move from their waiter's connection to the shared one, step by step (see
// pgbackend/move.go).
func (s *Service) movePack() []conformance.Case {
	return []conformance.Case{
		{ID: "I53", Name: "no-state-of-a-move-admits-anybody", Run: s.moveRefuses,
			Why: "while a lock is moved it is in shared mode for a moment, and excludes no " +
				"other session that asks for shared mode; after the move it must be exclusive " +
				"again"},
		{ID: "I54", Name: "move-ends-with-its-sessions", Run: s.moveEnds,
			Why: "while a lease depends on two sessions, the end of either session must end the " +
				"lease, and must leave nothing in the other session"},
		{ID: "I55", Name: "move-waits-for-a-stranger", Run: s.moveBesideStranger,
			Why: "another program may use the same advisory key; that must not cost a lease, " +
				"and callers that use the gate must still exclude each other"},
	}
}

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

const pgMoverTTL = 4 * itest.ShortTTL

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

// noted keeps the first error of several goroutines.
type noted struct {
	mu  sync.Mutex
	err error
}

func (n *noted) add(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil {
		n.err = err
	}
}

func (n *noted) first() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

func (s *Service) moveRefuses(t conformance.T, _ *conformance.Harness) {
	for range rounds(t, 2, 50) {
		var seen noted
		var mu sync.Mutex
		var steps []int
		m := s.mover(t, func(m *pgMover, at int) {
			mu.Lock()
			if n := len(steps); at != 2 || n == 0 || steps[n-1] != 2 { // which is repeated if its answer takes an eighth of the TTL
				steps = append(steps, at)
			}
			mu.Unlock()
			seen.add(m.refused(fmt.Sprint("before step ", at)))
		})
		step.Eventually(t, itest.ShortWait, func() error { return errors.Join(m.hasMoved(t), m.lease.Err()) })
		seen.add(m.refused("after all steps"))
		if err := seen.first(); err != nil {
			t.Errorf("%v", err)
		}
		mu.Lock()
		if got := fmt.Sprint(steps); got != "[1 2 3 4 5]" {
			t.Errorf("the steps were %v, want each once", got)
		}
		mu.Unlock()
		if err := m.lease.Renew(t.Context()); err != nil { // so that the answer to step 5 has been read
			t.Errorf("Renew = %v, want nil", err)
		}
		admin[int](t, s, "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = $1 and not exists"+
			" (select from pg_locks l where l.pid = pg_stat_activity.pid and objsubid = 1 and locktype = 'advisory')", m.app)
		step.Pass(t, pgMoverTTL)
		step.WantLive(t, m.lease, step.CloseAtEnd(t, s.open(t))) // it doesn't depend on its waiter's session any more
		step.Release(t, m.lease)
		step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.open(t)), m.name)
	}
}

func (s *Service) moveEnds(t conformance.T, _ *conformance.Harness) {
	for at := 1; at <= len(pgSteps); at++ {
		for _, waiters := range []bool{true, false} {
			which := map[bool]string{true: "the waiter's", false: "the shared"}[waiters]
			stays := at < 3 && !waiters
			var seen noted
			var once sync.Once
			m := s.mover(t, func(m *pgMover, now int) {
				if now != at {
					return
				}
				once.Do(func() {
					of := m.sharedOf
					if waiters {
						of = m.waiterOf
					}
					ctx, cancel := context.WithTimeout(context.Background(), step.Limit)
					defer cancel()
					n, err := s.leader(ctx)
					if err == nil {
						var ended int
						ended, err = pgValue[int](ctx, n, "select count(pg_terminate_backend(pid, 5000)) from "+of)
						if err == nil && ended != 1 {
							err = fmt.Errorf("%d sessions were ended before step %d, want 1: this proves nothing", ended, at)
						}
					}
					seen.add(err)
				})
			})
			if stays {
				step.Eventually(t, 2*itest.ShortWait, func() error { return errors.Join(m.hasMoved(t), m.lease.Err()) })
				step.WantLive(t, m.lease, step.CloseAtEnd(t, s.open(t)))
				step.Release(t, m.lease)
			} else {
				step.LostWithin(t, itest.ShortWait, m.lease)
			}
			if err := seen.first(); err != nil {
				t.Errorf("%s session, step %d: %v", which, at, err)
			}
			step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.open(t)), m.name)
			step.Eventually(t, itest.ShortWait, func() error {
				if n := admin[int](t, s, "select count(*) from "+ofLocks+ofKey+"$1", pgKey(m.name)); n != 0 {
					return fmt.Errorf("%s session has ended before step %d: %d locks are left", which, at, n)
				}
				return nil
			})
		}
	}
}

func (s *Service) moveBesideStranger(t conformance.T, _ *conformance.Harness) {
	n, err := s.leader(t.Context())
	if err != nil {
		t.Fatalf("%v", err)
	}
	tx, err := n.admin.Begin(t.Context())
	if err != nil {
		t.Fatalf("%v", err)
	}
	leave := sync.OnceFunc(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	t.Cleanup(leave)
	var seen noted
	var mu sync.Mutex
	tries := 0
	m := s.mover(t, func(m *pgMover, at int) {
		seen.add(m.refused(fmt.Sprint("before step ", at)))
		mu.Lock()
		defer mu.Unlock()
		if at != 4 {
			return
		}
		if tries++; tries > 1 {
			return
		}
		var granted bool
		err := tx.QueryRow(context.Background(), "select pg_try_advisory_xact_lock_shared($1)", pgKey(m.name)).Scan(&granted)
		if err == nil && !granted {
			err = errors.New("the stranger doesn't get the key in shared mode: this proves nothing")
		}
		seen.add(err)
	})
	step.Pass(t, 3*pgMoverTTL)
	step.WantLive(t, m.lease, step.CloseAtEnd(t, s.open(t)))
	seen.add(m.refused("while another program has the key"))
	if modes := m.modes(t, m.sharedOf); modes != "ShareLock" {
		t.Errorf("the shared session has the lock in modes %q, want ShareLock", modes)
	}
	mu.Lock()
	if tries < 3 {
		t.Errorf("step 4 was taken %d times in 3 TTLs, want once in each renewal", tries)
	}
	mu.Unlock()
	leave()
	step.Eventually(t, itest.ShortWait, func() error { return errors.Join(m.hasMoved(t), m.lease.Err()) })
	if err := seen.first(); err != nil {
		t.Errorf("%v", err)
	}
	step.WantLive(t, m.lease, step.CloseAtEnd(t, s.open(t)))
	step.Release(t, m.lease)
}
