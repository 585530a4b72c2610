//go:build unix

package redis

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// This file sends single scripts of the Redis backend to a server.

// scriptText reads a script as the backend sends it.
func scriptText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../redisbackend/" + name)
	if err != nil {
		t.Fatal(err)
	}
	include := regexp.MustCompile(`(?m)^-- include (\w+\.lua)$`)
	return include.ReplaceAllStringFunc(string(text), func(line string) string {
		return scriptText(t, include.FindStringSubmatch(line)[1])
	})
}

// acquisition is a single request for a lock.
type acquisition struct {
	t       *testing.T
	admin   *redis.Client
	name    string
	owner   string
	ttl     time.Duration
	channel string
}

// saidBy is what an acquisition says of itself, as the scripts want it; every second one says nothing.
func saidBy(owner string) string {
	if owner == "" || owner[len(owner)-1]%2 == 0 {
		return ""
	}
	return "\n0 says " + owner
}

// stamps makes each request different, as a clock does.
var stamps int

func (a *acquisition) call(script, channel, late string) []any {
	a.t.Helper()
	answer, err := a.try(script, channel, late)
	if err != nil {
		a.t.Fatalf("%s for %s: %v", script, a.owner, err)
	}
	return answer
}

func (a *acquisition) try(script, channel, late string) ([]any, error) {
	a.t.Helper()
	stamps++
	args := []any{a.owner, a.ttl.Milliseconds(), stamps, channel, saidBy(a.owner)}
	if script == "release" {
		args = append(args[:2], late)
	}
	k := key(a.name)
	keys := []string{k, k + ":token", k + ":queue", k + ":waiters", k + ":tomb:" + a.owner}
	if only := map[string]int{"renew_one": 1, "release_one": 1, "keep_one": 2, "tombstone_one": 5}[script]; only > 0 {
		keys = keys[only-1 : only]
	}
	answer := a.admin.Eval(a.t.Context(), scriptText(a.t, script+".lua"), keys, args...)
	switch short := answer.Val().(type) {
	case int64:
		return []any{short}, nil
	case string:
		return []any{isGranted, short}, nil
	}
	return answer.Slice()
}

func (a *acquisition) acquire() []any   { a.t.Helper(); return a.call("acquire", a.channel, "") }
func (a *acquisition) askNoWait() []any { a.t.Helper(); return a.call("acquire", "", "") }
func (a *acquisition) renew() []any     { a.t.Helper(); return a.call("renew", a.channel, "") }
func (a *acquisition) release()         { a.t.Helper(); want(a.t, a.call("release", a.channel, ""), isGone) }

// The first number of an answer.
const (
	isGone    = int64(0)
	isRefused = int64(1)
	isQueued  = int64(2)
	isGranted = int64(3)
)

// want checks what an answer says, and returns the token of a grant.
func want(t *testing.T, answer []any, standing int64) (token int64) {
	t.Helper()
	if answer[0] != standing {
		t.Fatalf("the answer is %v, want %d first", answer, standing)
	}
	if standing == isGranted {
		var err error
		if token, err = strconv.ParseInt(answer[1].(string), 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return token
}

// Bench is a server and a lock for one test.
type Bench struct {
	t       *testing.T
	Service *Service
	Admin   *redis.Client
	Name    string
	owners  int
}

func NewBench(t *testing.T) *Bench {
	t.Helper()
	itest.NeedServers(t)
	s := Standalone(t)
	return &Bench{t: t, Service: s, Admin: s.Nodes[0].Admin, Name: step.LockName(t)}
}

// acquisition makes a request of a waiter that listens on channel; with "" it doesn't listen.
func (b *Bench) acquisition(channel string) *acquisition {
	b.owners++
	return &acquisition{b.t, b.Admin, b.Name, fmt.Sprintf("%032d", b.owners), itest.LongTTL, channel}
}

// listen subscribes to a channel and returns what is sent to it.
func (b *Bench) listen(channel string) <-chan *redis.Message {
	b.t.Helper()
	o := *b.Admin.Options()
	o.ContextTimeoutEnabled = false
	client := redis.NewClient(&o)
	sub := client.Subscribe(b.t.Context(), channel)
	b.t.Cleanup(func() { _ = sub.Close(); _ = client.Close() })
	if _, err := sub.Receive(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	return sub.Channel()
}

func (b *Bench) hears(messages <-chan *redis.Message, words ...string) {
	b.t.Helper()
	select {
	case m := <-messages:
		if got := strings.Fields(m.Payload); len(got) < len(words) || strings.Join(got[:len(words)], " ") != strings.Join(words, " ") {
			b.t.Errorf("heard %q, want %q first", m.Payload, words)
		}
	case <-time.After(itest.ShortWait):
		b.t.Fatalf("nothing was heard, want %q", words)
	}
}

func (b *Bench) set(suffix, value string, ttl time.Duration) {
	b.t.Helper()
	if err := b.Admin.Set(b.t.Context(), key(b.Name)+suffix, value, ttl).Err(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *Bench) left(suffix string) time.Duration {
	return b.Admin.PTTL(b.t.Context(), key(b.Name)+suffix).Val()
}

// age makes a place look as if it had been refreshed longer ago.
func (b *Bench) age(a *acquisition, by time.Duration) {
	b.t.Helper()
	waiters := key(b.Name) + ":waiters"
	place := strings.SplitN(b.Admin.HGet(b.t.Context(), waiters, a.owner).Val(), " ", 4)
	if len(place) != 4 {
		b.t.Fatalf("the place of %s is %q", a.owner, place)
	}
	refreshed, err := strconv.ParseInt(place[1], 10, 64)
	if err != nil {
		b.t.Fatal(err)
	}
	place[1] = strconv.FormatInt(refreshed-by.Milliseconds(), 10)
	if err := b.Admin.HSet(b.t.Context(), waiters, a.owner, strings.Join(place, " ")).Err(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *Bench) queue(want ...*acquisition) {
	b.t.Helper()
	var owners []string
	for _, a := range want {
		owners = append(owners, a.owner)
	}
	if got := b.Admin.ZRange(b.t.Context(), key(b.Name)+":queue", 0, -1).Val(); strings.Join(got, " ") != strings.Join(owners, " ") {
		b.t.Errorf("in the queue are %q, want %q", got, owners)
	}
	if n := b.Admin.HLen(b.t.Context(), key(b.Name)+":waiters").Val(); n != int64(len(want)) {
		b.t.Errorf("%d places are written down, want %d", n, len(want))
	}
}
