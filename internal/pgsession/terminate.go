package pgsession

import (
	"context"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// Terminate finds out whether the server's session of s, whose connection has ended here, is over
// as well, and ends it if it isn't: the server may not have noticed. exec executes a statement on
// another session, of a server of the same configuration.
//
// As long as the lock of s.Presence is held, it is that session that holds it, so its process can
// be ended without hitting another session that has got its number. (A pooler in session mode may
// go on with the process, but has it give up all locks first.) On another server than before, after
// a failover, it is free.
//
// A process that ends gives up its locks one after the other. So when the presence lock is free, some of
// thousands of others may be held for some microseconds or milliseconds more.
func (s *Session) Terminate(ctx context.Context, exec func(ctx context.Context, sql string) (*Call, error)) error {
	select {
	case s.terminating <- struct{}{}:
		defer func() { <-s.terminating }()
	case <-ctx.Done():
		return locker.ErrNoAnswer
	}
	if s.terminated {
		return nil
	}
	const lookOnly = " END"
	look, end := "SELECT "+s.IfGone(), fmt.Sprintf(" WHEN pg_terminate_backend(%d) THEN false END", s.PID)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		r, err := exec(ctx, look+end)
		if Says(err, codePermission) && end != lookOnly { // the role has changed (SET ROLE); the server ends the session by itself
			end = lookOnly
			continue
		}
		if err != nil {
			return err
		}
		if r.Bool(0, 0) {
			s.terminated = true
			return nil
		}
		if !kit.Sleep(ctx, pause) {
			return fmt.Errorf("%w: the session of a broken connection is still there (process %d)", locker.ErrNoAnswer, s.PID)
		}
	}
}

// IfGone is SQL: the beginning of a CASE, which is true when the session of s is over. The caller
// appends the rest of the CASE, up to END. That rest is evaluated only if the session isn't over,
// so s.PID is its process then. The lock is asked for in shared mode, so that who looks at the lock
// table doesn't take the session that asks for s.
func (s *Session) IfGone() string {
	return fmt.Sprintf("CASE WHEN pg_try_advisory_lock_shared(%s) THEN pg_advisory_unlock_shared(%[1]s)", s.Presence)
}
