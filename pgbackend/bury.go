package pgbackend

import (
	"context"
	"fmt"
	"time"
)

// bury finds out, over c, whether the session of a connection that has ended here is over on the server too, and ends it if it
// isn't: the server may not have noticed. As long as somebody holds the sign of life, it is that session, so its process can be ended
// without hitting another one that has got its number. (A pooler in session mode may go on with the process, but has it give up all
// locks first.) On another server than before, after a failover, nobody holds it.
func (c *conn) bury(ctx context.Context, dead *conn) error {
	select {
	case dead.burial <- struct{}{}:
		defer func() { <-dead.burial }()
	case <-ctx.Done():
		return errNoAnswer
	}
	if dead.buried {
		return nil
	}
	sql := fmt.Sprintf("SELECT CASE WHEN pg_try_advisory_lock(%s) THEN pg_advisory_unlock(%[1]s)", lifePair(dead.life))
	const alone = " END"
	end := fmt.Sprintf(" WHEN pg_terminate_backend(%d) THEN false END", dead.pid)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		r, err := c.exec(ctx, sql+end)
		if says(err, codePermission) && end != alone { // the role has changed (SET ROLE); the server ends the session by itself
			end = alone
			continue
		}
		if err != nil {
			return err
		}
		if r.bool(0, 0) {
			dead.buried = true
			return nil
		}
		if !sleep(ctx, pause) {
			return fmt.Errorf("the session of a broken connection is still there (process %d)", dead.pid)
		}
	}
}

// sleep is false when ctx was over first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
