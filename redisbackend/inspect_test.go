package redisbackend_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn/redistest"
	"github.com/fencedlock/locker/redisbackend"
)

// inspected is an answer of inspect.lua. waiters are owners, each followed by its label.
func inspected(lease string, pttl, waiting int, waiters ...string) string {
	if lease == "" {
		lease = "$-1\r\n"
	} else {
		lease = redistest.Bulk(lease)
	}
	text := fmt.Sprintf("*%d\r\n%s:%d\r\n:%d\r\n", 3+len(waiters), lease, pttl, waiting)
	for _, word := range waiters {
		text += redistest.Bulk(word)
	}
	return text
}

func inspectA(t *testing.T, d driver.Driver) locker.Status {
	t.Helper()
	s, err := d.(driver.Inspector).Inspect(t.Context(), "a", 2)
	if err != nil {
		t.Fatalf("Inspect = %v", err)
	}
	return s
}

func TestInspectReadsTheAnswer(t *testing.T) {
	f := newFake(t)
	d := f.driver(t, nil)
	f.answers(inspected("own 1795221171926053\n1795221171926 web", 1500, 3, "w1", "", "w2", "1795221171926 \x1b\xff"))
	s := inspectA(t, d)
	asked := time.UnixMilli(1795221171926).UTC()
	if s.Name != "a" || s.Key != "locker:{a}" || s.Waiting != 3 || len(s.Waiters) != 2 ||
		s.Waiters[0] != (locker.Party{Owner: "w1"}) || s.Waiters[1] != (locker.Party{Owner: "w2", Holder: "\uFFFD\uFFFD", Asked: asked}) {
		t.Errorf("Inspect = %+v, want the queue of a", s)
	}
	if p := *s.Holder; p.Owner != "own" || p.Token != 1795221171926053 || p.Expires != 1500*time.Millisecond || p.Holder != "web" || !p.Asked.Equal(asked) {
		t.Errorf("Inspect shows the holder %+v", p)
	}
	last := f.calls[len(f.calls)-1]
	if want := []string{"evalsha_ro", "3", "locker:{a}", "locker:{a}:queue", "locker:{a}:waiters", "2", "0"}; !slices.Equal(slices.Delete(slices.Clone(last), 1, 2), want) {
		t.Errorf("Inspect has sent %q, want %q and the digest", last, want)
	}
	f.answers(inspected("", -2, 0))
	if s := inspectA(t, d); s.Holder != nil || s.Waiting != 0 {
		t.Errorf("Inspect of a free lock = %+v", s)
	}
	f.answers(inspected("somebody's", -1, -1))
	if s := inspectA(t, d); s.Holder == nil || *s.Holder != (locker.Party{}) || s.Waiting != -1 {
		t.Errorf("Inspect of a key of somebody else = %+v, want a holder of whom nothing is known", s)
	}
	for _, token := range []string{"9223372036854775807", "7"} { // they have left the clock
		f.answers(inspected("own "+token, 10, 0))
		if s := inspectA(t, d); !s.Holder.Since.IsZero() || s.Holder.Token.String() != token {
			t.Errorf("Inspect shows %+v, want token %s without Since: it is no time", s.Holder, token)
		}
	}
	for _, value := range []string{"x -9000000000000000000", "x -1", "x 0"} {
		f.answers(inspected(value, -1, 0))
		if s := inspectA(t, d); s.Holder == nil || *s.Holder != (locker.Party{}) {
			t.Errorf("Inspect of the value %q shows %+v, want a holder of whom nothing is known", value, s.Holder)
		}
	}
	for pttl, want := range map[int]time.Duration{0: time.Millisecond, 1: time.Millisecond, math.MaxInt: (math.MaxInt64 / time.Millisecond) * time.Millisecond} {
		f.answers(inspected("own 7", pttl, 0))
		if s := inspectA(t, d); s.Holder.Expires != want {
			t.Errorf("Inspect of a key with PTTL %d shows %v, want %v", pttl, s.Holder.Expires, want)
		}
	}
	f.answers("*1\r\n:7\r\n")
	if _, err := d.(driver.Inspector).Inspect(t.Context(), "a", 2); err == nil {
		t.Error("Inspect with an answer that makes no sense = nil")
	}
}

// A server before Redis 7 doesn't know EVALSHA_RO, and another one may not permit it. That is
// learnt once.
func TestInspectFindsTheCommand(t *testing.T) {
	for _, refusal := range []string{"-ERR unknown command 'evalsha_ro', with args beginning with: \r\n",
		"-NOPERM this user has no permissions to run the 'evalsha_ro' command\r\n"} {
		findsTheCommand(t, refusal)
	}
}

func findsTheCommand(t *testing.T, refusal string) {
	f := newFake(t)
	d := f.driver(t, nil)
	known := map[string]bool{"evalsha": true, "eval": true}
	loaded := false
	f.does(func(command []string) string {
		switch name := strings.ToLower(command[0]); {
		case !known[name]:
			return refusal
		case strings.HasPrefix(name, "evalsha") && !loaded:
			return "-NOSCRIPT No matching script.\r\n"
		}
		loaded = true
		return inspected("own 7", 10, 0)
	})
	inspectA(t, d)
	inspectA(t, d)
	var sent []string
	for _, call := range f.calls {
		sent = append(sent, strings.ToLower(call[0]))
	}
	if want := []string{"evalsha_ro", "evalsha", "eval", "evalsha"}; !slices.Equal(sent, want) {
		t.Errorf("two calls of Inspect have sent %q, want %q", sent, want)
	}
	f.answers("-NOPERM this user has no permissions to run the 'evalsha' command\r\n")
	if _, err := d.(driver.Inspector).Inspect(t.Context(), "a", 2); err == nil || !strings.Contains(err.Error(), "docs/redis.md") {
		t.Errorf("Inspect without a permission = %v, want what is missing", err)
	}
}

// scanOf returns SCAN as a server executes it; nil: the command is another one.
func scanOf(command []string) []string {
	if strings.EqualFold(command[0], "scan") {
		return command
	}
	if command[2] != "0" { // the number of keys
		return nil
	}
	return []string{"scan", command[3], "match", command[4]}
}

// A step of a scan that was left writes nothing that its caller reads: the race detector would see it.
func TestListOfACallThatWasLeft(t *testing.T) {
	f, late := newFake(t), make(chan struct{})
	f.does(func([]string) string {
		<-late
		return "-ERR too late\r\n"
	})
	_ = f.cluster(t) // makes the fake one
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{f.addr}})
	defer client.Close()
	d := redisbackend.NewDriver(client, false)
	defer func() { _ = d.Close(context.Background()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := d.(driver.Inspector).List("", 0)(ctx); !errors.Is(err, locker.ErrNoAnswer) {
		t.Errorf("List of a server that is late = %v, want ErrNoAnswer", err)
	}
	close(late)
	for end := time.Now().Add(10 * time.Second); client.PoolStats().IdleConns == 0 && time.Now().Before(end); { // the step hasn't ended
		time.Sleep(time.Millisecond)
	}
	if n := len(f.called()); n == 0 {
		t.Error("nothing was scanned")
	}
}

// A scan returns keys more than once, and keys that aren't locks.
func TestListSeesEachLockOnce(t *testing.T) {
	f := newFake(t)
	for what, d := range map[string]driver.Driver{"a caller's client": f.driver(t, nil), "its own client": f.ownDriver(t)} {
		t.Run(what, func(t *testing.T) { seesEachLockOnce(t, f, d) })
	}
}

func seesEachLockOnce(t *testing.T, f *fake, d driver.Driver) {
	steps := map[string]struct {
		next string
		keys []string
	}{
		"0": {"7", []string{"locker:{a}", "locker:{a}:queue", "locker:{a}:token", "locker:{b}:token", "locker:{free}"}},
		"7": {"9", nil},
		"9": {"0", []string{"locker:{%7Bc%25}:queue", "locker:{a}", "locker:{c}:tomb:x", "locker:grants:1", "other:{a}", "locker:{%7b}", "locker:{}"}},
	}
	var patterns []string
	f.does(func(command []string) string {
		key := command[3]
		if command = scanOf(command); command != nil {
			patterns = append(patterns, command[3])
			step := steps[command[1]]
			text := "*2\r\n" + redistest.Bulk(step.next) + fmt.Sprintf("*%d\r\n", len(step.keys))
			for _, key := range step.keys {
				text += redistest.Bulk(key)
			}
			return text
		}
		switch key {
		case "locker:{free}":
			return inspected("", -2, 0)
		case "locker:{a}":
			return inspected("own 7", 10, 0)
		}
		return inspected("", -2, 1)
	})
	next, pages := d.(driver.Inspector).List("", 0), 0
	var names []string
	for more := true; more; pages++ {
		page, m, err := next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page {
			names = append(names, s.Name)
		}
		more = m
	}
	if !slices.Equal(names, []string{"a", "{c%"}) || pages != 3 {
		t.Errorf("List shows %q on %d pages, want a and {c%% on 3", names, pages)
	}
	if len(patterns) != pages {
		t.Errorf("List has sent SCAN %d times for %d pages", len(patterns), pages)
	}
	if patterns[0] != "locker:{*" {
		t.Errorf("the pattern is %q", patterns[0])
	}
	f.answers("-NOPERM User me has no permissions to run the 'scan' command\r\n")
	if _, _, err := d.(driver.Inspector).List("", 0)(t.Context()); err == nil || !strings.Contains(err.Error(), "permission is missing") {
		t.Errorf("List without a permission = %v, want what is missing", err)
	}
}

// Behind the first line anything may follow: the lock is held, and what can be read is shown.
func TestInspectOfAnyLabel(t *testing.T) {
	f := newFake(t)
	d := f.driver(t, nil)
	for value, want := range map[string]locker.Party{
		"own 7":                {Owner: "own", Token: 7},
		"own 7\n":              {Owner: "own", Token: 7},
		"own 7\n\nBREACH":      {Owner: "own", Token: 7},
		"own 7\nweb\nBREACH":   {Owner: "own", Token: 7, Holder: "web"},
		"own 7\n\x00\xff":      {Owner: "own", Token: 7, Holder: "\uFFFD\uFFFD"},
		"own 7\n0 web 1\r":     {Owner: "own", Token: 7, Holder: "web 1\uFFFD"},
		"own 7 8\nweb":         {},
		"own\n7 web":           {},
		"\n0 web":              {},
		"own 7\x00\n1 a\nb\nc": {},
	} {
		f.answers(inspected(value, -1, 0))
		s := inspectA(t, d)
		s.Holder.Since = time.Time{}
		if *s.Holder != want {
			t.Errorf("%q is shown as %+v, want %+v", value, *s.Holder, want)
		}
	}
}
