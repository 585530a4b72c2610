//go:build unix

package redlock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	redistest "github.com/fencedlock/locker/integration/redis"
	"github.com/fencedlock/locker/internal/redlockmodel"
)

// A client whose clock is ahead gets the largest token that a server agrees to, and the server
// loses its data. It may be the only server that two majorities have in common. So when it takes
// part again, it agrees to no token that isn't larger.
func TestRedlockTokenBeforeLoss(t *testing.T) {
	const longest = 50 * time.Millisecond
	b := redistest.NewBench(t)
	scripts := redlockScripts(t)
	keys := []string{b.Name + ":memory", b.Name}
	ask := func(script string, owner redlockmodel.Owner, token int64) []string {
		t.Helper()
		for end := time.Now().Add(step.Limit); ; {
			answer, err := b.Admin.Eval(t.Context(), scripts[script], keys,
				longest.Milliseconds(), "", 0, redlockOwner(owner), token, itest.LongTTL.Milliseconds(), "", "").Result()
			if err != nil {
				t.Fatal(err)
			}
			if list, ok := answer.([]any); ok {
				return strings.Fields(fmt.Sprint(list...))
			}
			if time.Now().After(end) {
				t.Fatalf("%s is answered with %v for %v", script, answer, step.Limit)
			}
			step.Pass(t, longest/5)
		}
	}
	now := func() int64 {
		t.Helper()
		now, err := b.Admin.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return now.UnixMicro()
	}
	first := now() + 30*60*1_000_000
	if words := ask("acquire", 1, first); words[0] != "raised" {
		first = numberOf(words, 2) // what the server says that it can be raised to
		if words := ask("raise", 1, first); words[0] != "raised" {
			t.Fatalf("a token that the server permits is answered with %v", words)
		}
	}
	if err := b.Admin.Del(t.Context(), b.Name+":memory", b.Name, b.Name+":token").Err(); err != nil {
		t.Fatal(err)
	}
	ask("acquire", 2, 1) // when the server takes part again
	second := now()
	words := ask("raise", 2, second)
	if words[0] == "raised" && second <= first {
		t.Fatalf("after token %d was lost, the server agrees to %d", first, second)
	}
	// A client that is refused gets a token as soon as the server takes part.
	third := max(numberOf(words, 1), second) + 1
	if words := ask("raise", 2, third); words[0] != "raised" {
		t.Errorf("after token %d was lost, token %d is answered with %v", first, third, words)
	}
	b.Admin.Del(t.Context(), append(keys, b.Name+":token")...)
}
