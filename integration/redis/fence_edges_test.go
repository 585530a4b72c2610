//go:build unix

package redis

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/fence/fenceredis"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// In a pipeline a claim is queued, and what follows it is executed whatever becomes of it. So the
// claim fails there, and nothing is sent.
func TestFenceRedisInPipeline(t *testing.T) {
	itest.NeedServers(t)
	client := Standalone(t).Nodes[0].Admin
	key := step.LockName(t)
	ctx := t.Context()
	if err := (fenceredis.Mark{Client: client, Key: key + ":fence"}).Claim(ctx, 900); err != nil {
		t.Fatal(err)
	}
	for what, pipelined := range map[string]func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error){
		"Pipelined": client.Pipelined, "TxPipelined": client.TxPipelined,
	} {
		for _, token := range []locker.Token{100, 901} {
			_, err := pipelined(ctx, func(p redis.Pipeliner) error {
				mark := fenceredis.Mark{Client: p, Key: key + ":fence"}
				if err := mark.Claim(ctx, token); err != nil {
					return err
				}
				p.Set(ctx, key, "stale", 0)
				return nil
			})
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s: Claim(%d) = %v, want ErrUnsupported", what, token, err)
			}
		}
	}
	if n := client.Exists(ctx, key).Val(); n != 0 {
		t.Errorf("a stale holder has written")
	}
	err := client.Watch(ctx, func(tx *redis.Tx) error { // this one executes what it gets at once
		mark := fenceredis.Mark{Client: tx, Key: key + ":fence"}
		if err := mark.Claim(ctx, 100); !errors.Is(err, fence.ErrStale) {
			t.Errorf("Claim(100) in a Tx = %v, want ErrStale", err)
		}
		_, err := mark.Do(ctx, 901, "SET", key, "x")
		return err
	}, key+":other")
	if got := client.Get(ctx, key).Val(); err != nil || got != "x" {
		t.Errorf("Do(901) in a Tx = %v, and there is %q", err, got)
	}
}

// A MULTI that the caller has sent queues a claim, too: the answer QUEUED is no claim.
func TestFenceRedisBehindMulti(t *testing.T) {
	itest.NeedServers(t)
	client := Standalone(t).Nodes[0].Admin
	key := step.LockName(t)
	ctx := t.Context()
	if err := (fenceredis.Mark{Client: client, Key: key + ":fence"}).Claim(ctx, 900); err != nil {
		t.Fatal(err)
	}
	conn := client.Conn()
	defer conn.Close()
	mark := fenceredis.Mark{Client: conn, Key: key + ":fence"}
	if err := conn.Do(ctx, "MULTI").Err(); err != nil {
		t.Fatal(err)
	}
	if err := mark.Claim(ctx, 100); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Claim(100) after MULTI = %v, want ErrUnsupported", err)
	}
	if _, err := mark.Do(ctx, 100, "SET", key, "stale"); err != nil {
		t.Fatal(err)
	}
	_ = conn.Do(ctx, "EXEC").Err() // the refusals are among its results
	if n := client.Exists(ctx, key).Val(); n != 0 {
		t.Errorf("a stale holder has written by Do")
	}
}

// A value that is no token is no mark: it may be data. It is not overwritten, and it is not treated
// as a mark that is higher than all tokens.
func TestFenceRedisForeignMarks(t *testing.T) {
	itest.NeedServers(t)
	client := Standalone(t).Nodes[0].Admin
	ctx, key := t.Context(), step.LockName(t)
	mark := fenceredis.Mark{Client: client, Key: key + ":fence"}
	for _, value := range []string{
		"", "abc", "-7", "+7", "7.5", "007", "0", " 7", "7\n", "1e3", "9223372036854775808", "10000000000000000000", strings.Repeat("9", 40),
	} {
		client.Set(ctx, mark.Key, value, 0)
		for _, token := range []locker.Token{1, math.MaxInt64} {
			if err := mark.Claim(ctx, token); !errors.Is(err, fenceredis.ErrNoToken) || errors.Is(err, fence.ErrStale) {
				t.Errorf("Claim(%d) of the mark %q = %v, want ErrNoToken", token, value, err)
			}
			if _, err := mark.Do(ctx, token, "SET", key, "x"); !errors.Is(err, fenceredis.ErrNoToken) {
				t.Errorf("Do(%d) with the mark %q = %v, want ErrNoToken", token, value, err)
			}
		}
		if got := client.Get(ctx, mark.Key).Val(); got != value {
			t.Errorf("the mark %q has become %q", value, got)
		}
	}
	client.Del(ctx, mark.Key)
	client.RPush(ctx, mark.Key, "x")
	if err := mark.Claim(ctx, 1); !redis.HasErrorPrefix(err, "WRONGTYPE") {
		t.Errorf("Claim of a list = %v, want WRONGTYPE", err)
	}
	if n := client.Exists(ctx, key).Val(); n != 0 {
		t.Errorf("something was written although the value is no mark")
	}
	client.Del(ctx, mark.Key)
	for _, token := range []locker.Token{1, 9, 10, math.MaxInt64} {
		if err := mark.Claim(ctx, token); err != nil {
			t.Errorf("Claim(%d) = %v, want nil", token, err)
		}
	}

	// An expiry is taken off, by the same token as well as by a larger one.
	client.Set(ctx, mark.Key, "5", 0)
	for what, claim := range map[string]func() error{
		"Claim(5)": func() error { return mark.Claim(ctx, 5) },
		"Do(5)":    func() error { _, err := mark.Do(ctx, 5, "SET", key, "x"); return err },
		"Claim(6)": func() error { return mark.Claim(ctx, 6) },
	} {
		client.Set(ctx, mark.Key, "5", time.Hour)
		if err := claim(); err != nil {
			t.Errorf("%s = %v", what, err)
		}
		if left := client.PTTL(ctx, mark.Key).Val(); left != -1 {
			t.Errorf("after %s the mark expires in %v, want never", what, left)
		}
	}
}

// A caller's script doesn't see the claim, and its errors are returned unchanged. The number of its
// values isn't limited by Lua's unpack.
func TestFenceRedisKeepsApart(t *testing.T) {
	itest.NeedServers(t)
	client := Standalone(t).Nodes[0].Admin
	ctx, key := t.Context(), step.LockName(t)
	mark := fenceredis.Mark{Client: client, Key: key + ":fence"}
	run := func(text string, args ...any) (any, error) {
		return mark.Run(ctx, 5, fenceredis.NewScript(text), []string{key}, args...)
	}
	for _, name := range []string{"token", "highest", "mark", "largest", "rest"} {
		got, err := run("local known = pcall(function() return " + name + " end) return tostring(known)")
		if err != nil || got != "false" {
			t.Errorf("a script knows the name %q: %v, %v", name, got, err)
		}
	}
	for _, reply := range []string{"STALE 7", "INEXACT integer", "stale 7"} {
		_, err := run("return redis.error_reply('" + reply + "')")
		if err == nil || errors.Is(err, fence.ErrStale) || errors.Is(err, fenceredis.ErrInexact) || !strings.Contains(err.Error(), reply) {
			t.Errorf("an error of the script's own is %v, want %q", err, reply)
		}
	}
	if got, err := run("(redis.call)('SET', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[1])", "x"); err != nil || got != "x" {
		t.Errorf("a script that begins with a parenthesis: %v, %v, want x", got, err)
	}
	client.Del(ctx, key)
	many := make([]any, 20000)
	for i := range many {
		many[i] = i
	}
	got, err := run("return {#KEYS, #ARGV, ARGV[1], ARGV[#ARGV]}", many...)
	if want := []any{int64(1), int64(len(many)), "0", "19999"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Run with %d arguments = %v, %v, want %v", len(many), got, err, want)
	}
	if got, err := mark.Do(ctx, 5, "RPUSH", key, many[:7000]...); err != nil || got != int64(7000) {
		t.Errorf("Do with 7000 arguments = %v, %v", got, err)
	}
	if got, err := mark.Do(ctx, 6, "RPUSH", key, many[:7001]...); err == nil || client.Get(ctx, mark.Key).Val() != "5" {
		t.Errorf("Do with 7001 arguments = %v, %v, want an error, and no claim", got, err)
	}
	if got, err := mark.Do(ctx, 5, "LRANGE", key, 0, 1); err != nil || !reflect.DeepEqual(got, []any{"0", "1"}) {
		t.Errorf("Do(LRANGE) = %v, %v", got, err)
	}
}
