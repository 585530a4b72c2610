//go:build unix

package pg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/pgbackend"
)

func breakOf(t *testing.T, l locker.Locker, lease locker.Lease, b locker.Breach) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), step.Limit)
	defer cancel()
	_, err := locker.Break(ctx, l, lease.Name(), lease.Token(), b)
	return err
}

// slowConn calls before for each statement, before it is sent.
type slowConn struct {
	net.Conn
	before func(c net.Conn, sql string)
}

func (c *slowConn) Write(b []byte) (int, error) {
	for _, sql := range statementsIn(b) {
		c.before(c.Conn, sql)
	}
	return c.Conn.Write(b)
}

func (s *Service) slowed(t *testing.T, before func(c net.Conn, sql string), opts ...pgbackend.Option) locker.Locker {
	t.Helper()
	return s.dialled(t, func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &slowConn{conn, before}, err
	}, opts...)
}

func isAboutLeases(sql, begin string) bool {
	return strings.HasPrefix(sql, begin) && strings.Contains(sql, "locker_lease")
}

// The task that writes rows waits for another connection, while a lease whose row it is about to
// write is released, and the next one begins. The token of the first one takes nothing away from
// the next one.
func TestPostgresBreakOfALeaseThatIsOver(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	var isSlow atomic.Bool
	l := step.CloseAtEnd(t, s.slowed(t, func(_ net.Conn, sql string) {
		if isAboutLeases(sql, "DELETE FROM") && isSlow.CompareAndSwap(true, false) {
			time.Sleep(labelTTL / 10)
		}
	}))
	operator, name := step.CloseAtEnd(t, s.open(t)), step.LockName(t)
	other := locker.WithTTL(labelTTL + time.Second)
	x, y := step.Acquire(t, l, name+"x", locker.WithTTL(labelTTL)), step.Acquire(t, l, name+"y", locker.WithTTL(labelTTL))
	described(t, operator, x, locker.DefaultHolder())
	described(t, operator, y, locker.DefaultHolder())
	first := step.Acquire(t, l, name, other)
	time.Sleep((labelTTL+time.Second)/5 + 10*time.Millisecond)
	step.Release(t, y)
	time.Sleep(20 * time.Millisecond) // its row is removed, and the task pauses for 100 ms
	isSlow.Store(true)
	step.Release(t, x)
	if err := step.Renew(t, first); err != nil {
		t.Fatal(err)
	}
	step.Eventually(t, itest.ShortWait, func() error {
		if isSlow.Load() {
			return errors.New("nothing is removed")
		}
		return nil
	})
	step.Release(t, first)
	next := step.Acquire(t, l, name, other)
	third := step.Acquire(t, l, name+"third", other)
	time.Sleep(labelTTL / 6)
	if p := holderOf(t, operator, name); p.Token == first.Token() {
		t.Errorf("Inspect shows the token of the lease before: %+v", p)
	}
	for _, atOnce := range []bool{false, true} {
		if err := breakOf(t, operator, first, locker.Breach{AtOnce: atOnce, WithOthers: true}); err == nil {
			t.Errorf("Break of a lease that is over (at once: %v) = nil", atOnce)
		}
	}
	step.WantLive(t, next, operator)
	step.WantLive(t, third, operator)
	step.Release(t, next)
	step.Release(t, third)
}

// A Locker breaks a lease of its own, and the session that it asks on ends with the lease.
func TestPostgresBreakOfAnOwnLease(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	l, name := step.CloseAtEnd(t, itest.OpenURL(t, s.with("ttl", labelTTL.String()))), step.LockName(t)
	lease, other := step.Acquire(t, l, name), step.Acquire(t, l, name+"other")
	described(t, l, lease, locker.DefaultHolder())
	effect, err := locker.Break(t.Context(), l, name, lease.Token(), locker.Breach{AtOnce: true, WithOthers: true})
	if effect != (locker.Effect{Others: 1}) || err != nil {
		t.Errorf("Break at once, of a lease on the session that asks = %+v, %v, want that another one has ended", effect, err)
	}
	step.LostWithin(t, itest.ShortWait, other)
}

// late is a lease whose renewals have not moved it off its waiter's connection until it has a row
// there. (On a busy machine one renewal may be too late for the row, too.) Before is called for step 3.
func late(t *testing.T, s *Service, before func()) (m *pgMover) {
	t.Helper()
	var hasRow atomic.Bool
	m = s.mover(t, func(_ *pgMover, at int) {
		switch {
		case at == 2 && !hasRow.Load():
			time.Sleep(pgMoverTTL / 6) // more than half of the time of a renewal
		case at == 3:
			before()
		}
	})
	step.Eventually(t, itest.ShortWait, func() error {
		if p := holderOf(t, m.l, m.name); p.Token != m.lease.Token() {
			return fmt.Errorf("Inspect shows %+v", p)
		}
		return nil
	})
	hasRow.Store(true)
	return m
}

// A lease that is attached to two connections, of which one has other leases.
func TestPostgresBreakOfALeaseThatMoves(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	operator := step.CloseAtEnd(t, s.open(t))
	moves, broken := make(chan struct{}), make(chan struct{})
	m := late(t, s, func() { close(moves); <-broken })
	other := step.Acquire(t, m.l, m.name+"other")
	<-moves
	err := breakOf(t, operator, m.lease, locker.Breach{AtOnce: true})
	close(broken)
	if !errors.Is(err, locker.ErrOption) {
		t.Errorf("Break at once, without others = %v, want ErrOption", err)
	}
	step.Pass(t, pgMoverTTL/8)
	if err := m.lease.Err(); err != nil {
		t.Errorf("Break was refused, and the lease has Err = %v", err)
	}
	step.Eventually(t, itest.ShortWait, func() error { return m.hasMoved(t) })
	step.WantLive(t, m.lease, operator)
	step.Release(t, m.lease)
	step.Release(t, other)
}

// The holder can't read the table at the renewal by which its lease moves. It reads the breach
// later.
func TestPostgresBreakJustBeforeAMove(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	operator := step.CloseAtEnd(t, s.open(t))
	m := late(t, s, func() {})
	if err := breakOf(t, operator, m.lease, locker.Breach{Reason: "hangs"}); err != nil {
		t.Fatalf("Break = %v", err)
	}
	n, err := s.leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tx, err := n.admin.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "LOCK TABLE locker.locker_lease")
	}
	if err != nil {
		t.Fatal(err)
	}
	step.Eventually(t, itest.ShortWait, func() error { return errors.Join(m.lease.Err(), m.hasMoved(t)) })
	step.Pass(t, pgMoverTTL/6)
	if err := m.lease.Err(); err != nil {
		t.Fatalf("the breach was read before: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	step.Eventually(t, itest.ShortWait, func() error {
		if err := m.lease.Err(); !errors.Is(err, locker.ErrBroken) {
			return fmt.Errorf("Err = %w, want a breach", err)
		}
		return nil
	})
}

// Another program has the key in shared mode, so a lease can't end its move. It is taken away like
// any other.
func TestPostgresBreakBesideAStranger(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	operator := step.CloseAtEnd(t, s.open(t))
	n, err := s.leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tx, err := n.admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	var once sync.Once
	asked := make(chan error, 1)
	m := s.mover(t, func(m *pgMover, at int) {
		if at == 4 {
			once.Do(func() {
				_, err := tx.Exec(context.Background(), "select pg_advisory_xact_lock_shared($1)", pgKey(m.name))
				asked <- err
			})
		}
	})
	if err := <-asked; err != nil {
		t.Fatal(err)
	}
	step.Eventually(t, itest.ShortWait, func() error {
		return errors.Join(m.lease.Err(), breakOf(t, operator, m.lease, locker.Breach{Reason: "hangs"}))
	})
	step.Eventually(t, itest.ShortWait, func() error {
		if err := m.lease.Err(); !errors.Is(err, locker.ErrBroken) {
			return fmt.Errorf("Err = %w, want a breach", err)
		}
		return nil
	})
}

// The answer to the statement is lost, and the token is of a lease that is over.
func TestPostgresBreakWithoutAnAnswer(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	l, looker, name := step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t)), step.LockName(t)
	var isCut atomic.Bool
	operator := step.CloseAtEnd(t, s.slowed(t, func(c net.Conn, sql string) {
		if (strings.Contains(sql, "SET breach") || strings.Contains(sql, "FOR UPDATE")) && isCut.CompareAndSwap(true, false) {
			_ = c.Close()
		}
	}))
	former := step.Acquire(t, l, name, locker.WithTTL(labelTTL))
	step.Release(t, former)
	lease := step.Acquire(t, l, name, locker.WithTTL(labelTTL))
	described(t, looker, lease, locker.DefaultHolder())
	for _, atOnce := range []bool{false, true} {
		isCut.Store(true)
		if err := breakOf(t, operator, former, locker.Breach{AtOnce: atOnce}); !errors.Is(err, locker.ErrNotHolder) {
			t.Errorf("Break of a lease that is over (at once: %v) = %v, want ErrNotHolder", atOnce, err)
		}
		step.WantLive(t, lease, looker)
	}
	isCut.Store(true)
	if err := breakOf(t, operator, lease, locker.Breach{Reason: "hangs"}); err != nil {
		t.Errorf("Break = %v", err)
	}
	step.Eventually(t, itest.ShortWait, func() error {
		if err := lease.Err(); !errors.Is(err, locker.ErrBroken) {
			return fmt.Errorf("Err = %w, want a breach", err)
		}
		return nil
	})
}
