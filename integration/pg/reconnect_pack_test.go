//go:build unix

package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/pgbackend"
)

// turnPack tests the work that one connection does for all Lockers after a crash, while it has the
// turn.
func (s *Service) turnPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I12", Name: "all-come-back-after-a-crash", Run: s.comeBack,
			Why: "after a crash all Lockers connect at the same time; if each did the work that " +
				"only one must do, all would time out, again and again"},
		{ID: "I13", Name: "silent-client-loses-the-turn", Run: s.stuckTurn,
			Why: "a client that is cut off just after its work has failed can't give the turn " +
				"back; without a limit no client could connect any more"},
	}
}

// comeBack has many Lockers connect at once to a server whose disk is slow and which has just
// crashed.
func (s *Service) comeBack(t conformance.T, _ *conformance.Harness) {
	lockers := make([]locker.Locker, 48)
	for i := range lockers {
		lockers[i] = step.CloseAtEnd(t, s.open(t))
	}
	s.waitForDisk(t, "commit_delay = 100000", "commit_siblings = 0", "recovery_init_sync_method = syncfs")
	const value = "select last_value from locker.locker_token"
	before := admin[int](t, s, value)
	s.crash(t, true)
	ctx, cancel := context.WithTimeout(t.Context(), step.Limit)
	defer cancel()
	var all sync.WaitGroup
	name, problems := step.LockName(t), make([]error, len(lockers))
	for i, l := range lockers {
		all.Go(func() {
			tries, done := context.WithCancel(ctx)
			defer done()
			again(tries, func() error {
				if _, problems[i] = drawToken(ctx, l, fmt.Sprint(name, "-", i)); problems[i] == nil {
					done()
				}
				return problems[i]
			})
		})
	}
	all.Wait()
	if err := errors.Join(problems...); err != nil {
		t.Fatalf("%v after a crash some have not come back: %v", step.Limit, err)
	}
	const values = 1 << 16                                           // see reach.go
	if moved := admin[int](t, s, value) - before; moved > 4*values { // more than once, where a session has ended before all had seen it
		t.Errorf("the sequence was moved on by %d, that is %d times", moved, moved/values)
	}
}

// pgTurn selects the locks of the connections that have the turn or wait for it.
const pgTurn = "pg_locks where locktype = 'advisory' and classid = 1819239275 and objid = 0 and objsubid = 2"

// stuckTurn lets a client do the work after a crash with a sequence that has no values left, and
// cuts the client off at that moment.
func (s *Service) stuckTurn(t conformance.T, _ *conformance.Harness) {
	const sequence = "alter sequence " + pgSequence
	step.Close(t, s.open(t)) // makes the sequence where this is the server's first case
	end := fmt.Sprint(admin[int](t, s, "select seqmax from pg_sequence where seqrelid = $1::regclass", pgSequence))
	restored := sync.OnceFunc(func() { s.exec(t, sequence+" maxvalue "+end) })
	t.Cleanup(restored)
	s.crash(t, true)
	s.exec(t, sequence+" maxvalue "+fmt.Sprint(admin[int](t, s, "select last_value + 1 from "+pgSequence)))

	network := proxy.Start(t)
	config, err := pgxpool.ParseConfig(s.URL)
	if err != nil {
		t.Fatalf("%v", err)
	}
	config.ConnConfig.DialFunc = network.Dial
	network.DropReplyTo("setval(")
	silent := make(chan error, 1)
	go func() {
		l, err := pgbackend.New(t.Context(), config)
		if err == nil {
			_ = l.Close()
		}
		silent <- err
	}()
	step.Eventually(t, itest.ShortWait, func() error {
		if n := admin[int](t, s, "select count(*) from pg_stat_activity where state = 'idle in transaction (aborted)' and pid in (select pid from "+pgTurn+")"); n != 1 {
			return fmt.Errorf("%d sessions with the turn have failed, want 1", n)
		}
		return nil
	})
	network.Cut()
	restored()

	ctx, cancel := context.WithTimeout(t.Context(), step.Limit)
	defer cancel()
	var failures []error
	again(ctx, func() error {
		l, err := locker.Open(ctx, s.URL)
		if err != nil {
			failures = append(failures, err)
			return err
		}
		_ = l.Close()
		cancel()
		return nil
	})
	if failures != nil {
		t.Logf("others have failed before: %v", failures)
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("%v after a client fell silent that had the turn nobody else can connect", step.Limit)
	}
	if err := <-silent; err == nil {
		t.Errorf("New = nil, though its work has failed")
	}
}
