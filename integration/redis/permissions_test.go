//go:build unix

package redis

import (
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/redisbackend"
)

// documentedACL reads the rules from docs/redis.md, for the default prefix.
func documentedACL(t *testing.T) (rules []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "ACL SETUSER billing on >secret resetchannels ")
	block, _, closed := strings.Cut(after, "```")
	if !found || !closed {
		t.Fatal("docs/redis.md has no ACL")
	}
	return strings.Fields(strings.ReplaceAll(block, "billing:", "locker:"))
}

// probedWithoutATrace fails if the probes of a Locker that is opened leave a key that never
// expires.
func (b *Bench) probedWithoutATrace(t *testing.T) {
	t.Helper()
	ctx, admin := t.Context(), b.Admin
	keys, err := admin.Keys(ctx, "locker:{probe *").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if left := admin.PTTL(ctx, k).Val(); left == -1 {
			t.Errorf("%q is left and never expires", k)
			admin.Del(ctx, k)
		}
	}
}

// A user who may do what the docs say can use a Locker. If a single permission is missing, opening
// one fails and names it.
func TestRedisPermissions(t *testing.T) {
	b := NewBench(t)
	const user, password = "modest", "open-sesame"
	rules := documentedACL(t)
	permit := func(rules []string) {
		t.Helper()
		args := []any{"acl", "setuser", user, "reset", "resetchannels", "on", ">" + password}
		for _, rule := range rules {
			args = append(args, rule)
		}
		if err := b.Admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { b.Service.all(t, "acl", "deluser", user) })
	rawURL := itest.Changed(b.Service.URL, func(u *url.URL) { u.User = url.UserPassword(user, password) })

	permit(rules)
	l, other := step.CloseAtEnd(t, itest.OpenURL(t, rawURL)), step.CloseAtEnd(t, itest.OpenURL(t, rawURL))
	lease := step.Acquire(t, l, b.Name)
	waiter := step.StartAcquire(t, other, b.Name)
	step.Eventually(t, itest.ShortWait, func() error { return b.Service.queued(t, b.Name, 1) })
	if err := lease.Renew(t.Context()); err != nil {
		t.Errorf("Renew = %v, want nil", err)
	}
	step.Release(t, lease)
	step.Release(t, waiter.Granted(t, itest.ShortWait))

	// What the docs say of looking.
	if s, err := locker.Inspect(t.Context(), l, b.Name, locker.Look{Waiters: 1}); err != nil || s.Holder != nil {
		t.Errorf("Inspect with the rights of a Locker = %+v, %v, want a free lock", s, err)
	}
	listed := func() error {
		for _, err := range locker.List(t.Context(), l, "", 0) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := listed(); err == nil || !strings.Contains(err.Error(), "scan") {
		t.Errorf("List with the rights of a Locker = %v, want an error that names what is missing", err)
	}
	permit(append(append([]string(nil), rules...), "+scan"))
	if err := listed(); err != nil {
		t.Errorf("List with the right to scan = %v", err)
	}

	for i, rule := range rules {
		permit(append(append([]string(nil), rules[:i]...), rules[i+1:]...))
		name := strings.TrimPrefix(rule, "+")
		says := "a permission is missing"
		if name == "info" {
			says = "can't be read"
		}
		t.Run(name, func(t *testing.T) {
			itest.RefusedAtOpen(t, rawURL, says, name)
			b.probedWithoutATrace(t)
		})
	}
	permit(append(append([]string(nil), rules...), "-info"))
	l, err := locker.Open(t.Context(), rawURL+"?allow_eviction=true")
	if err != nil {
		t.Fatalf("without INFO, and with allow_eviction: %v, want a Locker", err)
	}
	step.Release(t, step.Acquire(t, step.CloseAtEnd(t, l), b.Name))

	// A caller's client selects a database in addition.
	client := redis.NewClient(&redis.Options{Addr: b.Service.Nodes[0].Addr, Username: user, Password: password})
	t.Cleanup(func() { _ = client.Close() })
	permit(rules)
	if _, err := redisbackend.New(t.Context(), client); err == nil || !strings.Contains(err.Error(), "a permission is missing") ||
		!strings.Contains(err.Error(), "+select") {
		t.Errorf("New without the right to select a database = %v, want an error that names it", err)
	}
	permit(append(slices.Clone(rules), "+select"))
	shared, err := redisbackend.New(t.Context(), client)
	if err != nil {
		t.Fatalf("New with the right to select a database = %v, want a Locker", err)
	}
	step.Release(t, step.Acquire(t, step.CloseAtEnd(t, shared), b.Name))
}
