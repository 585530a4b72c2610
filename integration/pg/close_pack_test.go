//go:build unix

package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/images"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// closePack is for services in which no other client uses the server's connections.
func (s *Service) closePack() []conformance.Case {
	return []conformance.Case{
		{ID: "I46", Name: "close-leaves-no-connection", Run: s.closed,
			Why: "a program that opens and closes Lockers must not pile up sessions on the server"},
		{ID: "I47", Name: "blocked-connect-leaves-no-processes", Run: s.blockedConnect,
			Why: "a server doesn't notice that a client has gone while its statement waits for " +
				"a lock; with one such process for each attempt, no client could connect any " +
				"more"},
		{ID: "I48", Name: "early-cancellation-is-repeated", Run: s.cancelledEarly,
			Why: "a server ignores a cancellation if its process hasn't read the statement yet; " +
				"the statement then waits without end, and its connection is never returned"},
	}
}

// blockedConnect has somebody lock the table that each connection reads, for longer than several
// tries take.
func (s *Service) blockedConnect(t conformance.T, _ *conformance.Harness) {
	l := step.CloseAtEnd(t, s.open(t))
	n, err := s.leader(t.Context())
	if err != nil {
		t.Fatalf("%v", err)
	}
	before := s.sessions(t)
	tx, err := n.admin.Begin(t.Context())
	if err != nil {
		t.Fatalf("%v", err)
	}
	back := sync.OnceFunc(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	t.Cleanup(back)
	if _, err := tx.Exec(t.Context(), "lock table "+pgStored[1]+" in access exclusive mode"); err != nil {
		t.Fatalf("%v", err)
	}
	const ttl = 4 * itest.ShortTTL // which needs a connection that isn't there yet
	tries := 0
	for end := time.Now().Add(17 * time.Second); time.Now().Before(end); tries++ {
		if lease, err := locker.TryAcquire(t.Context(), l, step.LockName(t), locker.WithTTL(ttl)); err == nil {
			_ = lease.Release(t.Context())
			t.Fatalf("TryAcquire = a lease: nobody can connect, so this case proves nothing")
		}
	}
	if more := s.sessions(t) - before; more > 2 {
		t.Errorf("%d tries have left %d processes on the server, want one that is being tried", tries, more)
	}
	back()
	name := step.LockName(t)
	step.Eventually(t, itest.ShortWait, func() error {
		lease, err := locker.TryAcquire(t.Context(), l, name, locker.WithTTL(ttl))
		if err == nil {
			step.Release(t, lease)
		}
		return err
	})
}

func (s *Service) closed(t conformance.T, _ *conformance.Harness) {
	other := step.CloseAtEnd(t, s.open(t))
	lease := step.Acquire(t, other, step.LockName(t))
	before := s.sessions(t)
	l := s.open(t)
	step.Acquire(t, l, step.LockName(t))
	waiter := step.StartAcquire(t, l, lease.Name())
	step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, lease.Name(), 1) })
	if n := s.sessions(t); n <= before {
		t.Errorf("a Locker that is open has %d sessions: this case proves nothing", n-before)
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
	if !waiter.Returned(itest.ShortWait) || !errors.Is(waiter.Err, locker.ErrClosed) {
		t.Errorf("Acquire that waited = %v, want ErrClosed", waiter.Err)
	}
	step.Eventually(t, itest.ShortWait, func() error {
		if n := s.sessions(t); n != before {
			return fmt.Errorf("%d sessions are left", n-before)
		}
		return nil
	})
}

// cancelledEarly stops a process of the server, so that the process reads the statement after the
// first cancellation.
func (s *Service) cancelledEarly(t conformance.T, _ *conformance.Harness) {
	const ttl = 15 * time.Second // after a third of it l asks whether its waiter waits; a session that is stopped ends after all of it
	// Without labels, whose statements would follow at once: pg_stat_activity shows the last statement.
	l, other := step.CloseAtEnd(t, itest.OpenURL(t, s.with("labels", "false"))), step.CloseAtEnd(t, s.open(t))
	lease := step.Acquire(t, other, step.LockName(t), locker.WithTTL(itest.LongTTL))
	first := step.StartAcquire(t, l, lease.Name(), locker.WithTTL(ttl))
	step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, lease.Name(), 1) })
	pid := admin[int](t, s, "select min(pid) from "+pgAwaited)
	first.Cancel(nil)
	step.Eventually(t, itest.ShortWait, func() error { // its connection is there for the next one
		if state := admin[string](t, s, "select state from pg_stat_activity where pid = $1", pid); state != "idle" {
			return fmt.Errorf("the waiter's session is %s, and not idle", state)
		}
		return nil
	})
	n, err := s.leader(t.Context())
	if err != nil {
		t.Fatalf("%v", err)
	}
	signal := func(name string) {
		if _, err := images.Docker(context.WithoutCancel(t.Context()), "exec", n.ID, "bash", "-c", fmt.Sprint("kill -", name, " ", pid)); err != nil {
			t.Errorf("SIG%s: %v", name, err)
		}
	}
	goOn := sync.OnceFunc(func() { signal("CONT") })
	t.Cleanup(goOn)
	signal("STOP")
	asked := func(what string) func() error {
		return func() error {
			if n := admin[int](t, s, "select count(*) from pg_stat_activity where usename = $1 and strpos(query, $2) > 0", pgUser, fmt.Sprint(what, pid)); n == 0 {
				return fmt.Errorf("nobody has asked for %s%d", what, pid)
			}
			return nil
		}
	}
	second := step.StartAcquire(t, l, lease.Name(), locker.WithTTL(ttl))
	step.Eventually(t, ttl, asked("pid IN (")) // its statement is on the way, as l looks whether it is blocked
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	step.Eventually(t, itest.ShortWait, asked("pg_cancel_backend("))
	goOn()
	if err := <-closed; err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
	if !second.Returned(itest.ShortWait) || !errors.Is(second.Err, locker.ErrClosed) {
		t.Errorf("Acquire that waited = %v, want ErrClosed", second.Err)
	}
	if n := admin[int](t, s, "select count(*) from "+pgAwaited); n != 0 {
		t.Errorf("%d statements still wait, whose callers have gone", n)
	}
}
