//go:build unix

package redis

import (
	"context"
	"errors"
	"math"
	"net/url"
	"reflect"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/fence/fenceredis"
	"github.com/fencedlock/locker/fence/fencetest"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// fencedRedis keeps values in Redis and checks marks before writes.
type fencedRedis struct{ client redis.UniversalClient }

func (s fencedRedis) mark(resource string) (fenceredis.Mark, string) {
	tag := "{" + url.QueryEscape(resource) + "}" // the data and its mark are on one server of a Cluster
	return fenceredis.Mark{Client: s.client, Key: tag + ":fence"}, tag
}

func (s fencedRedis) Claim(ctx context.Context, resource string, token locker.Token) error {
	if err := fence.Check(resource, token); err != nil {
		return err
	}
	mark, _ := s.mark(resource)
	return mark.Claim(ctx, token)
}

func (s fencedRedis) Write(ctx context.Context, resource string, token locker.Token, value string) error {
	mark, key := s.mark(resource)
	_, err := mark.Do(ctx, token, "SET", key, value)
	return err
}

func (s fencedRedis) Read(ctx context.Context, resource string) (string, error) {
	_, key := s.mark(resource)
	value, err := s.client.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return value, err
}

// The suite for storages passes on Redis that writes each command to its log before it answers, and
// on a Cluster.
func TestFenceRedis(t *testing.T) {
	itest.NeedServers(t)
	for _, tc := range []struct {
		name   string
		server func(*testing.T) *Service
	}{
		{"standalone", itest.Lazily("redis", Start)},
		{"cluster", redisCluster},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := tc.server(t)
			h := fencetest.Harness{Open: func() (fencetest.Store, error) {
				options := s.client
				client := redis.NewUniversalClient(&options)
				t.Cleanup(func() { _ = client.Close() })
				return fencedRedis{client}, nil
			}}
			if tc.name == "standalone" { // the others are used by other tests at the same time
				admin := s.Nodes[0].Admin
				if err := errors.Join(admin.ConfigSet(t.Context(), "appendonly", "yes").Err(),
					admin.ConfigSet(t.Context(), "appendfsync", "always").Err(),
					admin.ConfigRewrite(t.Context()).Err()); err != nil {
					t.Fatal(err)
				}
				h.Crash = func() error { s.restart(t); return nil }
			}
			fencetest.Run(t, h)
		})
	}
}

// A caller's script runs after the claim, with the same keys and arguments as without a claim.
func TestFenceRedisScript(t *testing.T) {
	itest.NeedServers(t)
	client := Standalone(t).Nodes[0].Admin
	key := step.LockName(t)
	mark := fenceredis.Mark{Client: client, Key: key + ":fence"}
	script := fenceredis.NewScript(`
local n = redis.call('INCRBY', KEYS[1], ARGV[1])
return {n, #KEYS, #ARGV}`)
	run := func(token locker.Token) (any, error) { return mark.Run(t.Context(), token, script, []string{key}, 5) }
	for range 2 {
		if _, err := run(7); err != nil {
			t.Fatal(err)
		}
	}
	var stale *fence.StaleError
	if _, err := run(6); !errors.As(err, &stale) || stale.Highest != 7 {
		t.Errorf("Run(6) = %v, want ErrStale with the mark 7", err)
	}
	got, err := run(8)
	if list, ok := got.([]any); err != nil || !ok || list[0] != int64(15) || list[1] != int64(1) || list[2] != int64(1) {
		t.Errorf("Run(8) = %v, %v, want 15 with one key and one argument", got, err)
	}

	if _, err := mark.Do(t.Context(), 9, "GET", key+":none"); !errors.Is(err, redis.Nil) {
		t.Errorf("Do(GET) of no key = %v, want redis.Nil", err)
	}
	if _, err := mark.Do(t.Context(), 9, "LPUSH", key, "x"); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("Do(LPUSH) on a number = %v, want the server's error", err)
	}
	if err := mark.Claim(t.Context(), 8); !errors.Is(err, fence.ErrStale) {
		t.Errorf("Claim(8) = %v, want ErrStale: the claims of commands that failed stand", err)
	}
}

// An integer that a script would round is not returned, and the error says that the command was
// executed.
func TestFenceRedisLargeIntegers(t *testing.T) {
	itest.NeedServers(t)
	client := Standalone(t).Nodes[0].Admin
	key := step.LockName(t)
	mark := fenceredis.Mark{Client: client, Key: key + ":fence"}
	const largest = 1<<53 - 1 // that is exact
	for _, step := range []struct {
		command string
		args    []any
		want    any // nil: ErrInexact
		value   string
	}{
		{"SET", []any{largest - 1}, "OK", "9007199254740990"},
		{"INCR", nil, int64(largest), "9007199254740991"},
		{"INCR", nil, nil, "9007199254740992"},
		{"INCR", nil, nil, "9007199254740993"},
		{"GET", nil, "9007199254740993", "9007199254740993"},
		{"INCRBY", []any{math.MaxInt64 - largest - 2}, nil, "9223372036854775807"},
		{"SET", []any{-largest}, "OK", "-9007199254740991"},
		{"DECRBY", []any{2}, nil, "-9007199254740993"},
		{"BITFIELD", []any{"GET", "u8", 0, "GET", "u63", 0}, nil, "-9007199254740993"},
		{"BITFIELD", []any{"GET", "u8", 0}, []any{int64('-')}, "-9007199254740993"},
	} {
		got, err := mark.Do(t.Context(), 1, step.command, key, step.args...)
		switch {
		case step.want == nil && !errors.Is(err, fenceredis.ErrInexact):
			t.Errorf("Do(%s %v) = %v, %v, want ErrInexact", step.command, step.args, got, err)
		case step.want != nil && (err != nil || !reflect.DeepEqual(got, step.want)):
			t.Errorf("Do(%s %v) = %v, %v, want %v", step.command, step.args, got, err, step.want)
		}
		if value := client.Get(t.Context(), key).Val(); value != step.value {
			t.Errorf("after %s %v there is %s, want %s: it was executed", step.command, step.args, value, step.value)
		}
	}
}
