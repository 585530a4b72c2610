//go:build unix

package pg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/images"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// crashPack tests crashes of the server.
func (s *Service) crashPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I10", Name: "tokens-rise-over-crashes", Run: s.crashes,
			Why: "a sequence gives out values before they are written, and gives out the same " +
				"values again after a crash; a token that is given out twice fences nobody"},
		{ID: "I11", Name: "crash-is-noticed-at-once", Run: s.crashNoticed,
			Why: "a crash frees all locks, so a holder must not believe in its lease for the " +
				"rest of the TTL"},
	}
}

var campaigns sync.Map // names of cases whose long form has run

// rounds is n in a normal run, and many, once for each case, in a long one.
func rounds(t conformance.T, n, many int) int {
	if os.Getenv("LOCKER_SOAK") == "" {
		return n
	}
	if _, done := campaigns.LoadOrStore(t.Name(), true); done {
		return n
	}
	return many
}

// crash kills the whole server or one of its processes. In the second case the server ends all
// other processes and starts again.
func (s *Service) crash(t conformance.T, whole bool) {
	t.Helper()
	if whole {
		s.restart(t)
		return
	}
	itest.Must(t, func(ctx context.Context) error {
		n, err := s.leader(ctx)
		if err != nil {
			return err
		}
		victim := 0
		for killed := false; !killed; killed = err == nil { // one may be gone before it is killed
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if victim, err = pgValue[int](ctx, n, "select max(pid) from pg_stat_activity where usename = $1", pgUser); err == nil {
				_, err = images.Docker(ctx, "exec", n.ID, "bash", "-c", fmt.Sprint("kill -9 ", victim))
			}
		}
		return itest.Until(ctx, func(ctx context.Context) error {
			there, err := pgValue[bool](ctx, n, "select exists (select from pg_stat_activity where pid = $1)", victim)
			if err == nil && there {
				err = errors.New("the server has not noticed yet that one of its processes was killed")
			}
			return errors.Join(err, s.ready(ctx))
		})
	})
}

// crashes draws tokens with 16 Lockers, and values of a plain sequence with 16 connections,
// alongside other writes. Meanwhile the server or one of its processes is killed again and again.
// Half of the time the server doesn't wait for the disk, by default, when a transaction commits.
func (s *Service) crashes(t conformance.T, _ *conformance.Harness) {
	s.exec(t, "create sequence plain", "create table noise (x text)", "grant all on sequence plain to public", "grant all on noise to public")
	t.Cleanup(func() {
		s.exec(t, "drop sequence plain", "drop table noise", "alter system reset all", "select pg_reload_conf()")
	})
	const connections, perCrash = 16, 20
	var tokens, plain drawn
	s.drawUnderLoad(t, connections, &tokens, &plain)
	progress := func() {
		t.Helper()
		defer func() {
			if t.Failed() {
				t.Logf("%s; on the server:\n%s", tokens.failure(), s.activity(t))
			}
		}()
		want := tokens.count() + connections*perCrash
		step.Eventually(t, step.Limit, func() error {
			if n := tokens.count(); n < want {
				return fmt.Errorf("%d tokens were drawn, want %d", n, want)
			}
			return nil
		})
	}
	progress()
	count, crashes, repeated := rounds(t, 4, 50), 0, 0
	for ; crashes < count || repeated == 0 && crashes < 20; crashes++ { // few of them may all have come at a moment that loses nothing
		if crashes == count/2 {
			s.exec(t, "alter system set synchronous_commit = off", "select pg_reload_conf()")
		}
		_, before := plain.repeated()
		s.crash(t, crashes%2 == 0)
		progress()
		if _, after := plain.repeated(); after > before {
			repeated++
		}
		if example, n := tokens.repeated(); n > 0 {
			t.Fatalf("after crash %d a token has not risen: %s", crashes+1, example)
		}
	}
	example, _ := plain.repeated()
	t.Logf("%d tokens over %d crashes, all rising; a plain sequence has repeated values after %d of the crashes (%s)", tokens.count(), crashes, repeated, example)
	if repeated == 0 || crashes > 20 && repeated <= crashes/2 {
		t.Errorf("a plain sequence has repeated values after %d of %d crashes: this case proves little", repeated, crashes)
	}
}

// activity is what the server's processes do.
func (s *Service) activity(t conformance.T) (list string) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		n, err := s.leader(ctx)
		if err == nil {
			list, err = pgValue[string](ctx, n, `select coalesce(string_agg(line, E'\n'), '') from (
				select format('%s %s %s %s %s: %s', count(*), max(now() - query_start), state, wait_event_type, wait_event, left(query, 150)) as line
				from pg_stat_activity where pid != pg_backend_pid() group by state, wait_event_type, wait_event, left(query, 150) order by 1) a`)
		}
		if err != nil {
			list = err.Error()
		}
		return nil
	})
	return list
}

// again calls f until ctx ends, with a pause after each error.
func again(ctx context.Context, f func() error) {
	for ctx.Err() == nil {
		if f() == nil {
			continue
		}
		select {
		case <-time.After(rand.N(50 * time.Millisecond)): // without a server these loops would use up the processors
		case <-ctx.Done():
		}
	}
}

// queries calls f again and again on a connection, and on another when it has failed.
func (s *Service) queries(ctx context.Context, f func(*pgx.Conn) error) {
	again(ctx, func() error {
		conn, err := pgx.Connect(ctx, s.URL)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		for err == nil {
			err = f(conn)
		}
		return err
	})
}

// crashNoticed asks for the lock as soon as the server is back, long before the TTL is over.
func (s *Service) crashNoticed(t conformance.T, _ *conformance.Harness) {
	for _, whole := range []bool{true, false} {
		l, other, name := step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t)), step.LockName(t)
		lease := step.Acquire(t, l, name, locker.WithTTL(itest.LongTTL))
		waiter := step.StartAcquire(t, other, name, locker.WithTTL(itest.LongTTL))
		step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 1) })
		s.crash(t, whole)
		step.LostWithin(t, itest.ShortWait, lease)
		if !waiter.Returned(itest.ShortWait) {
			t.Fatalf("Acquire has not returned %v after a crash", itest.ShortWait)
		}
		if waiter.Err != nil { // its next request met a server that was not back yet
			t.Logf("Acquire that waited over a crash = %v", waiter.Err)
		} else {
			later(t, lease.Token(), waiter.Lease.Token())
			step.Release(t, waiter.Lease)
		}
		later(t, lease.Token(), step.FreeWithin(t, itest.ShortWait, l, name))
	}
}

// later fails unless a token is larger than an earlier one.
func later(t conformance.T, before, token locker.Token) {
	t.Helper()
	if token <= before {
		t.Fatalf("token %v after %v, want a larger one", token, before)
	}
}

// queued returns nil when n acquisitions wait.
func (s *Service) queued(t conformance.T, name string, n int) error {
	t.Helper()
	if got := s.waiters(t, name); got != n {
		return fmt.Errorf("%d acquisitions wait on the server, want %d", got, n)
	}
	return nil
}
