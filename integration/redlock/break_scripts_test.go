//go:build unix

package redlock

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/integration/internal/itest"
	redistest "github.com/fencedlock/locker/integration/redis"
)

// server is one server that takes part, and calls scripts about one lock there.
type server struct {
	t       *testing.T
	admin   *redis.Client
	lock    string
	scripts map[string]string
}

func newServer(t *testing.T) *server {
	t.Helper()
	b := redistest.NewBench(t)
	here, err := redlockIdentity(t.Context(), b.Service.Nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, admin: b.Admin, lock: b.Name, scripts: redlockScripts(t)}
	if err := s.admin.Set(t.Context(), s.memory(), fmt.Sprintf("%s 0 %d", here, waitsShort.Milliseconds()), itest.LongTTL).Err(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *server) memory() string { return s.lock + ":memory" }

// call returns the answer to a script about an owner with a token. more are the last two arguments.
func (s *server) call(client *redis.Client, script, owner string, token int64, more ...any) string {
	s.t.Helper()
	if more == nil {
		more = []any{"", ""}
	}
	args := append([]any{waitsShort.Milliseconds(), "", 0, owner, token, itest.LongTTL.Milliseconds()}, more...)
	answer, err := client.Eval(s.t.Context(), s.scripts[script], []string{s.memory(), s.lock}, args...).Slice()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(answer...)
}

func (s *server) want(begins, script, owner string, token int64, more ...any) (answer string) {
	s.t.Helper()
	if answer = s.call(s.admin, script, owner, token, more...); !strings.HasPrefix(answer, begins) {
		s.t.Errorf("%s = %q, want %q", script, answer, begins)
	}
	return answer
}

// A server to which the second phase of an attempt has not come has the lock with another token. What
// has been broken there must not be raised to the token of the lease, and renewed with it.
func TestRedlockBreakBeforeTheSecondPhase(t *testing.T) {
	for mode, answer := range map[string]string{"": "marked", "now": "ended"} {
		s := newServer(t)
		owner := redlockOwner(1)
		var counter, limit int64
		if _, err := fmt.Sscanf(s.want("granted", "acquire", owner, 1), "granted %d %d", &counter, &limit); err != nil {
			t.Fatal(err)
		}
		s.want("gone", "break", redlockOwner(2), counter+1, mode, "bob")
		s.want(answer, "break", owner, counter+1, mode, "bob")
		s.want("gone", "raise", owner, counter+1)
		if mode == "" {
			s.want("broken bob", "renew", owner, counter+1)
			s.want("held", "acquire", redlockOwner(3), counter+1)
			s.want("released", "release", owner, 1)
		} else {
			s.want("gone bob", "renew", owner, counter+1)
		}
		s.want("raised", "acquire", redlockOwner(4), counter+2)
		s.want("released", "release", redlockOwner(4), 1)
	}
}

// Where a server can't set the tombstone, the lease may still come there.
func TestRedlockBreakNeedsItsTombstone(t *testing.T) {
	s := newServer(t)
	user := s.lock
	if err := s.admin.Do(t.Context(), "acl", "setuser", user, "on", ">secret", "~*", "&*", "+@all", "-set").Err(); err != nil {
		t.Fatal(err)
	}
	o := *s.admin.Options()
	o.Username, o.Password = user, "secret"
	client := redis.NewClient(&o)
	t.Cleanup(func() {
		_ = client.Close()
		s.admin.Do(t.Context(), "acl", "deluser", user)
	})
	owner := redlockOwner(1)
	if answer := s.call(client, "break", owner, 7, "", "bob"); !strings.Contains(answer, "set") {
		t.Errorf("break by a user who may not set a tombstone = %q, want what is missing", answer)
	}
	s.want("gone", "break", owner, 7, "", "bob")
	if s.admin.Exists(t.Context(), s.lock+":tomb:"+owner).Val() != 1 {
		t.Error("there is no tombstone")
	}
}
