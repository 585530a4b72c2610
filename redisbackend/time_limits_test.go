package redisbackend_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn/redistest"
	"github.com/fencedlock/locker/redisbackend"
)

// clientWith makes drivers with a client of a caller's.
func clientWith(change func(*redis.Options)) func(*fake, *testing.T) driver.Driver {
	return func(f *fake, t *testing.T) driver.Driver { return f.driver(t, change) }
}

// The caller's context bounds nothing in go-redis unless ContextTimeoutEnabled is set. The driver's
// calls return all the same.
func TestCallsReturnInTime(t *testing.T) {
	for what, open := range map[string]func(*fake, *testing.T) driver.Driver{
		"its own client":               (*fake).ownDriver,
		"a client that minds contexts": clientWith(nil),
		"a client that doesn't":        clientWith(func(o *redis.Options) { o.ContextTimeoutEnabled = false }),
		"a client that would wait forever": clientWith(func(o *redis.Options) {
			o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout = false, -1, -1
		}),
		"a client with short limits": clientWith(func(o *redis.Options) { o.ReadTimeout = 10 * time.Millisecond }),
	} {
		t.Run(what, func(t *testing.T) {
			f := newFake(t)
			f.answers(silence)
			d := open(f, t)
			const ttl, slack = 200 * time.Millisecond, 2 * time.Second
			l := newLock(t, d, ttl)
			begin := time.Now()
			_, err := l.Acquire(t.Context())
			if took := time.Since(begin); took > ttl+slack {
				t.Errorf("Acquire returned after %v, and nothing is left of the lease after %v", took, ttl)
			}
			if !errors.Is(err, locker.ErrNoAnswer) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Acquire = %v, want ErrNoAnswer", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			begin = time.Now()
			d.Renew(ctx, []driver.Lock{l}, func(_ int, _ driver.Instant, err error) {
				if !errors.Is(err, locker.ErrNoAnswer) || errors.Is(err, locker.ErrLost) {
					t.Errorf("Renew reports %v, want ErrNoAnswer", err)
				}
			})
			err = l.Release(ctx)
			if took := time.Since(begin); took > slack {
				t.Errorf("Renew and Release returned after %v, with a context of 100ms", took)
			}
			if err == nil {
				t.Errorf("Release = nil, and the server has not answered")
			}
			f.answers(gone)
			if err := l.Release(t.Context()); err != nil {
				t.Errorf("Release = %v, want nil", err)
			}
		})
	}
}

// A message that is not answered must not keep the others in this process from the server.
func TestCancelledCallerCostsNoOther(t *testing.T) {
	f := newFake(t)
	f.answers(granted)
	d := f.driver(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := newLock(t, d, time.Minute)
	if _, err := l.Acquire(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire with a context that is over = %v, want context.Canceled", err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
	if got := f.called(); len(got) != 0 {
		t.Errorf("nothing was asked, and sent was %q", got)
	}
}

// questions are the calls that belong to no acquisition.
var questions = map[string]func(ctx context.Context, d driver.Driver) error{
	"CurrentToken": func(ctx context.Context, d driver.Driver) error {
		_, err := d.(driver.TokenReader).CurrentToken(ctx, "a", 0)
		return err
	},
	"Inspect": func(ctx context.Context, d driver.Driver) error {
		_, err := d.(driver.Inspector).Inspect(ctx, "a", locker.Look{})
		return err
	},
	"List": func(ctx context.Context, d driver.Driver) error {
		_, _, err := d.(driver.Inspector).List("", 0)(ctx)
		return err
	},
	"Break": func(ctx context.Context, d driver.Driver) error {
		_, err := d.(driver.Breaker).Break(ctx, "a", 7, bob)
		return err
	},
	"Break at once": func(ctx context.Context, d driver.Driver) error {
		now := bob
		now.AtOnce = true
		_, err := d.(driver.Breaker).Break(ctx, "a", 7, now)
		return err
	},
}

// returnsWhenItsCallerLeaves cancels a question when it has arrived at a server that doesn't answer.
func returnsWhenItsCallerLeaves(t *testing.T, d driver.Driver, what string, arrived <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- questions[what](ctx, d) }()
	<-arrived
	cancel()
	cancelled := time.Now()
	err := <-done
	if took := time.Since(cancelled); !errors.Is(err, locker.ErrNoAnswer) || took > redisbackend.MessageTimeout*9/10 {
		t.Errorf("%s = %v after %v, want that no answer has come, at once", what, err, took)
	}
}

// A question returns when its context ends, whatever client is asked, and if the client minds contexts:
// it minds their deadlines only.
func TestQuestionsReturnWhenTheirCallersLeave(t *testing.T) {
	for client, open := range map[string]func(*fake, *testing.T) driver.Driver{
		"its own client":               (*fake).ownDriver,
		"a client that minds contexts": clientWith(nil),
		"a client that doesn't":        clientWith(func(o *redis.Options) { o.ContextTimeoutEnabled = false }),
		"a Cluster":                    (*fake).clusterDriver,
	} {
		for what := range questions {
			for _, look := range []string{silence, inspected("own 7", 5000, -1)} {
				if look != silence && !strings.HasPrefix(what, "Break") {
					continue
				}
				t.Run(client+", "+what, func(t *testing.T) {
					f := newFake(t) // where no earlier question is under way
					arrived := make(chan struct{}, 100)
					f.does(func(command []string) string {
						if look != silence && strings.HasPrefix(describe(command), "inspect") {
							return look
						}
						arrived <- struct{}{}
						return silence
					})
					returnsWhenItsCallerLeaves(t, open(f, t), what, arrived)
				})
			}
		}
	}
}

// The same while a client is greeting a server that doesn't answer, which contexts don't bound.
func TestQuestionsReturnWhileClientGreets(t *testing.T) {
	for what := range questions {
		t.Run(what, func(t *testing.T) {
			greeted := make(chan struct{}, 10)
			addr := redistest.Listen(t, func(conn net.Conn) {
				redistest.Serve(conn, func([]string) string {
					greeted <- struct{}{}
					return redistest.Silence
				})
			})
			client := redis.NewClient(&redis.Options{Addr: addr})
			returnsWhenItsCallerLeaves(t, closedAtEnd(t, redisbackend.NewDriver(client, false), client), what, greeted)
		})
	}
}
