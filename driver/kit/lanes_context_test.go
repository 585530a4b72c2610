package kit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/driver/kit"
)

func TestACallerThatLeavesItsLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, sent := messenger(kit.LaneOptions{Limit: time.Second, Size: 10})
		ctx, cancel := context.WithCancelCause(t.Context())
		var replies []chan reply
		for i := range 4 {
			replies = append(replies, do(ctx, g, i)) // sent
		}
		for i := 4; i < 7; i++ { // not sent
			if i == 5 {
				replies = append(replies, do(t.Context(), g, i))
				continue
			}
			replies = append(replies, do(ctx, g, i))
		}
		cancel(errCause)
		for i, c := range replies {
			if i == 5 {
				continue
			}
			r := <-c
			matches(t, "Do", r.err, context.Canceled, errCause)
			if notSent := errors.Is(r.err, kit.ErrNotSent); notSent != (i > 4-1) {
				t.Errorf("Do(%d) = %v; not sent: %v", i, r.err, notSent)
			}
		}
		for range 4 {
			m := <-sent
			if m.ctx.Err() != nil {
				t.Error("a caller's context reached the message")
			}
			m.answer <- echo
		}
		m := <-sent
		m.is(t, 5) // who left before is not in it
		m.answer <- echo
		if r := <-replies[5]; r.err != nil || r.rep != "5" {
			t.Errorf("Do(5) = %q, %v, and others have left", r.rep, r.err)
		}
	})
}

// A caller that is gone before it came asks for nothing.
func TestACallerWhoseContextIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, sent := messenger(kit.LaneOptions{Limit: time.Second, Size: 10})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := g.Do(ctx, 1)
		matches(t, "Do", err, context.Canceled, kit.ErrNotSent)
		synctest.Wait()
		if len(sent) > 0 {
			t.Error("the request was sent")
			(<-sent).answer <- echo
		}
	})
}

// late is a context that ends when somebody waits for its end, after a while.
type late struct {
	context.Context
	wait func()
}

func (c *late) Done() <-chan struct{} {
	c.wait()
	return c.Context.Done()
}

// A reply that has come is not thrown away because the caller's context is over by then.
func TestAReplyAtTheEndOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := kit.NewLanes(func(_ context.Context, reqs []int) ([]string, error) { return echo(reqs) }, kit.LaneOptions{Limit: time.Second, Size: 10})
		for i := range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			rep, err := g.Do(&late{ctx, func() {
				time.Sleep(time.Millisecond) // the reply comes
				cancel()
			}}, i)
			if err != nil || rep != fmt.Sprint(i) {
				t.Fatalf("Do(%d) = %q, %v", i, rep, err)
			}
		}
	})
}

func TestTheTimeLimitOfAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := kit.NewLanes(func(ctx context.Context, _ []int) ([]string, error) {
			return nil, hang(ctx)
		}, kit.LaneOptions{Limit: 3 * time.Second, Size: 10})
		began := time.Now()
		_, err := g.Do(t.Context(), 1)
		matches(t, "Do", err, context.DeadlineExceeded)
		matchesNone(t, "Do", err, kit.ErrNotSent)
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("it took %v, want 3s", d)
		}
	})
}

// With CallersSend a request that finds a free lane has its caller's goroutine and context. Requests that join have not.
func TestCallersSend(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan message, 10)
		l := kit.NewLanes(func(ctx context.Context, reqs []int) ([]string, error) {
			m := message{ctx, reqs, make(chan func([]int) ([]string, error))}
			sent <- m
			select {
			case answer := <-m.answer:
				return answer(reqs)
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}, kit.LaneOptions{Width: 1, Size: 10, Limit: time.Second, CallersSend: true})
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "the caller's"))
		gone, leave := context.WithCancelCause(t.Context())
		first, second, third := do(ctx, l, 1), do(gone, l, 2), do(t.Context(), l, 3)
		leave(errCause)
		matches(t, "Do", (<-second).err, errCause, kit.ErrNotSent)
		m := <-sent
		m.is(t, 1)
		if m.ctx.Value(key{}) == nil {
			t.Error("the request that is alone has another context than its caller's")
		}
		cancel(errCause)
		matches(t, "Do", (<-first).err, errCause)
		m = <-sent
		m.is(t, 3)
		if m.ctx.Value(key{}) != nil {
			t.Error("a request that has waited has a caller's context")
		}
		m.answer <- echo
		if r := <-third; r.err != nil || r.rep != "3" {
			t.Errorf("Do(3) = %q, %v", r.rep, r.err)
		}
		fourth := do(t.Context(), l, 4) // the lane is free again
		m = <-sent
		m.is(t, 4)
		began := time.Now()
		matches(t, "Do", (<-fourth).err, context.DeadlineExceeded)
		if d := time.Since(began); d != time.Second {
			t.Errorf("a message of a caller without a deadline took %v, want the limit, 1s", d)
		}
	})
}

type valueKey struct{}

// A request that is alone in its message passes on the values of its caller's context, and not its
// end. A message with several requests is of no caller.
func TestTheValuesOfAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, sent := messenger(kit.LaneOptions{Width: 1, Size: 10})
		ctx := context.WithValue(t.Context(), valueKey{}, "caller's")
		caller, leave := context.WithCancel(ctx)
		do(caller, g, 1)
		alone := <-sent
		leave()
		if got := alone.ctx.Value(valueKey{}); got != "caller's" || alone.ctx.Err() != nil {
			t.Errorf("the context of a request alone has the value %v and the error %v", got, alone.ctx.Err())
		}
		do(ctx, g, 2)
		do(ctx, g, 3)
		alone.answer <- echo
		joined := <-sent
		if got := joined.ctx.Value(valueKey{}); len(joined.reqs) != 2 || got != nil {
			t.Errorf("the context of %d requests has the value %v", len(joined.reqs), got)
		}
		joined.answer <- echo
	})
}
