package redisbackend_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/redisbackend"
)

// everything sends a request of each kind, and returns what was sent.
func everything(t *testing.T, f *fake, d driver.Driver) [][]string {
	t.Helper()
	f.does(func(command []string) string {
		switch name := describe(command); {
		case strings.EqualFold(command[0], "scan") || command[2] == "0":
			return "*2\r\n$1\r\n0\r\n*0\r\n"
		case strings.HasPrefix(name, "inspect"):
			return inspected("own 7", 5000, 0)
		case strings.HasPrefix(name, "release"), strings.HasPrefix(name, "break"):
			return gone
		case name == "unknown": // reads the token
			return "$5\r\nown 7\r\n"
		}
		return granted
	})
	l := newLock(t, d, time.Minute)
	if _, err := l.Acquire(t.Context()); err != nil {
		t.Errorf("Acquire = %v, want nil", err)
	}
	d.Renew(t.Context(), []driver.Lock{l}, func(_ int, _ driver.Instant, err error) {
		if err != nil {
			t.Errorf("Renew reports %v, want nil", err)
		}
	})
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
	if token, err := d.(driver.TokenReader).CurrentToken(t.Context(), "a", 0); err != nil || token != 7 {
		t.Errorf("CurrentToken = %v, %v, want 7", token, err)
	}
	if _, _, err := d.(driver.Inspector).List("", 0)(t.Context()); err != nil {
		t.Errorf("List = %v, want nil", err)
	}
	inspectA(t, d)
	_, _ = d.(driver.Breaker).Break(t.Context(), "a", 7, locker.Breach{})
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// A program that shares its client may have a connection select another database. Whatever is sent
// there selects the right one first. A client that was made for a URL is nobody else's.
func TestCallersClientSelectsItsDatabase(t *testing.T) {
	f := newFake(t)
	d := f.driver(t, func(o *redis.Options) { o.DB = 5 })
	calls := everything(t, f, d)
	for _, c := range calls {
		if !selects(c[1]) || c[len(c)-1] != "5" {
			t.Errorf("%q doesn't select the database of the client", c)
		}
	}
	own := everything(t, f, f.ownDriver(t))
	if len(calls) < 8 || len(own) != len(calls) {
		t.Errorf("sent were %d and %d requests, want each of both", len(calls), len(own))
	}
	for _, c := range own {
		if selects(c[1]) || c[len(c)-1] == "5" {
			t.Errorf("%q selects a database, and nobody else has the connection", c)
		}
	}
}

// selects reports whether a script, or its digest, is one that selects a database.
func selects(script string) bool {
	texts := []string{"return redis.call('GET', KEYS[1])", redisbackend.ScanScript}
	for _, text := range redisbackend.Scripts() {
		texts = append(texts, text)
	}
	return slices.ContainsFunc(texts, func(text string) bool {
		text = redisbackend.Selecting(text)
		return script == text || script == digest(text)
	})
}
