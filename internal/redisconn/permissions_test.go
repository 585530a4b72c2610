package redisconn_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/internal/redisconn"
	"github.com/fencedlock/locker/internal/redisconn/redistest"
)

var permissions = redisconn.Permissions{Keys: "locker:*", Channels: "locker:grants:*", Doc: "docs/redis.md"}

func TestFailedCommands(t *testing.T) {
	if err := permissions.ErrorOf(nil); err != nil {
		t.Errorf("nothing failed: %v, want nil", err)
	}
	for _, c := range []struct {
		failed []any
		says   []string
	}{
		{[]any{"ZADD", "ERR The user executing the script can't run this command or subcommand script: 3c2f, on @user_script:8.", "HSET", "x"},
			[]string{"+hset +zadd", "permission", "~locker:*", "&locker:grants:*"}},
		{[]any{"TIME", "NOPERM this user has no permissions to run the 'time' command"}, []string{"+time", "permission"}},
		{[]any{"GET", "ERR ACL failure in script: User joe has no permissions to run the 'get' command"}, []string{"+get", "permission"}},
		{[]any{"GET", "-NOPERM User executing the script can't run this command or subcommand"}, []string{"+get", "permission"}},
		{[]any{"SET", "READONLY You can't write against a read only replica."}, []string{"replica", "master", "READONLY"}},
		{[]any{"SET", "OOM command not allowed when used memory > 'maxmemory'."}, []string{"OOM"}},
	} {
		err := permissions.ErrorOf(c.failed)
		for _, word := range c.says {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%v: %v, want an error that speaks of %q", c.failed, err, word)
			}
		}
	}
}

func TestExplain(t *testing.T) {
	if err := permissions.Explain(nil); err != nil {
		t.Errorf("Explain(nil) = %v, want nil", err)
	}
	denied := serverError("NOPERM this user has no permissions to run the 'evalsha' command")
	if err := permissions.Explain(denied); !errors.Is(err, denied) || !strings.Contains(err.Error(), "see docs/redis.md") {
		t.Errorf("Explain = %v, want the cause, and where the commands are listed", err)
	}
	if err := permissions.Explain(context.Canceled); err != context.Canceled { //nolint:errorlint // unchanged
		t.Errorf("Explain = %v, want what isn't about permissions unchanged", err)
	}
}

// connect makes a Conn with a client of a server that answers scripts, and subscriptions, as the
// test says. The client minds contexts, or not.
func connect(t *testing.T, bounded bool, answer func(command []string) string) *redisconn.Conn {
	t.Helper()
	addr := redistest.Listen(t, func(conn net.Conn) {
		redistest.Serve(conn, func(command []string) string {
			switch strings.ToLower(command[0]) {
			case "eval", "evalsha", "subscribe", "info":
				return answer(command)
			}
			return redistest.Handshake(command)
		})
	})
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: bounded, MaxRetries: 3, DialerRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	return redisconn.NewConn(client, 0)
}

// EVALSHA and EVAL have to be permitted both, so both are tried.
func TestProbeTriesBothWays(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	for _, c := range []struct {
		what    string
		answers map[string]string
		seen    []string
		says    string
	}{
		{"all is permitted", map[string]string{"evalsha": "*0\r\n", "eval": "*0\r\n"}, []string{"evalsha", "eval"}, ""},
		{"a new script", map[string]string{"evalsha": "-NOSCRIPT No matching script.\r\n", "eval": "*0\r\n"}, []string{"evalsha", "eval"}, ""},
		{"EVAL is denied", map[string]string{"evalsha": "*0\r\n", "eval": "-NOPERM 'eval'\r\n"}, []string{"evalsha", "eval"}, "permission"},
		{"a command fails", map[string]string{"evalsha": "*2\r\n$3\r\nGET\r\n$8\r\nNOPERM x\r\n"}, []string{"evalsha"}, "+get"},
	} {
		seen = nil
		conn := connect(t, true, func(command []string) string {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, command[0])
			return c.answers[command[0]]
		})
		script := redisconn.LoadScript(fstest.MapFS{"x.lua": {Data: []byte("return {}")}}, "x.lua")
		err := conn.Probe(t.Context(), permissions, func(whole bool) []any { return append(script.Begin(nil, whole), 0) })
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: Probe = %v, want %q", c.what, err, c.says)
		}
		mu.Lock()
		if !slices.Equal(seen, c.seen) {
			t.Errorf("%s: sent was %q, want %q", c.what, seen, c.seen)
		}
		mu.Unlock()
	}
}

func TestTrySubscribe(t *testing.T) {
	for _, c := range []struct {
		what, answer, says string
		confirmed          bool
	}{
		{"confirmed", redistest.Confirm("c"), "", true},
		{"denied", "-NOPERM this user has no permissions to access one of the channels\r\n", "&locker:grants:*", false},
		{"silence", redistest.Silence, "timeout", false},
	} {
		conn := connect(t, true, func([]string) string { return c.answer })
		limit := 10 * time.Second
		if c.answer == redistest.Silence {
			limit = 50 * time.Millisecond
		}
		confirmed := false
		err := conn.TrySubscribe(t.Context(), permissions, "c", limit, func() error {
			confirmed = true
			return nil
		})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) || confirmed != c.confirmed {
			t.Errorf("%s: TrySubscribe = %v, confirmed %v, want %q, %v", c.what, err, confirmed, c.says, c.confirmed)
		}
	}
}
