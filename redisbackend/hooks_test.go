package redisbackend_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/redisbackend"
)

// argsHook keeps the words of the commands that a client sends.
type argsHook struct{ args []any }

func (h *argsHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *argsHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.args = append(h.args, cmd.Args()...)
		return next(ctx, cmd)
	}
}

func (h *argsHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// The hooks of a caller's client trace commands, so they must see the words and no addresses.
func TestHooksSeeWords(t *testing.T) {
	f := newFake(t)
	f.answers(granted)
	client := redis.NewClient(&redis.Options{Addr: f.addr, ReadTimeout: time.Second, WriteTimeout: time.Second})
	h := new(argsHook)
	client.AddHook(h)
	l := newLock(t, closedAtEnd(t, redisbackend.NewDriver(client, false), client), time.Minute)
	if _, err := l.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, arg := range h.args {
		switch arg.(type) {
		case string, int, int64:
		default:
			t.Errorf("a hook sees a %T", arg)
		}
	}
	if len(h.args) == 0 {
		t.Error("the hook sees nothing")
	}
}
