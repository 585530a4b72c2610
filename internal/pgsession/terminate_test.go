package pgsession

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// A session is terminated when its presence lock is free; as long as somebody has that, its process
// is ended.
func TestTerminate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead, _ := start(t, Settings{})
		dead.PID, dead.Presence = 77, "1, 2"
		over, p := start(t, Settings{})
		asked := 0
		p.answers(func(sql string) []pgproto3.BackendMessage {
			asked++
			switch {
			case sql != "SELECT CASE WHEN pg_try_advisory_lock_shared(1, 2) THEN pg_advisory_unlock_shared(1, 2) WHEN pg_terminate_backend(77) THEN false END" &&
				sql != "SELECT CASE WHEN pg_try_advisory_lock_shared(1, 2) THEN pg_advisory_unlock_shared(1, 2) END":
				t.Errorf("Terminate asks %q", sql)
			case asked == 2:
				return []pgproto3.BackendMessage{failure("ERROR", codePermission), &pgproto3.ReadyForQuery{TxStatus: 'I'}}
			case strings.Contains(sql, "terminate") != (asked == 1):
				t.Errorf("request %d: %q, want the process ended until that is refused", asked, sql)
			}
			return row(map[bool]string{true: "t", false: "f"}[asked > 4])
		})
		if err := dead.Terminate(t.Context(), over.Exec); err != nil || asked != 5 {
			t.Errorf("Terminate = %v after %d requests, want nil after 5", err, asked)
		}
		if err := dead.Terminate(t.Context(), over.Exec); err != nil || asked != 5 {
			t.Errorf("Terminate of a session that is over = %v after %d requests, want nil and no more", err, asked)
		}
	})
}

// A session that is still there when time is up is an error.
func TestTerminateInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead, _ := start(t, Settings{})
		over, p := start(t, Settings{})
		p.answers(func(string) []pgproto3.BackendMessage { return row("f") })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := dead.Terminate(ctx, over.Exec); err == nil {
			t.Error("Terminate of a session that doesn't end = nil, want an error")
		}
	})
}
