package redlockbackend_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/redlockbackend"
)

// waiter is an acquisition that waits, and that all servers know of.
func waiter(t *testing.T, c *cluster) driver.Lock {
	t.Helper()
	c.answer("acquire", slices.Repeat([]string{text("held 3600000 0 A")}, len(c.servers))...)
	l := c.lock(t, false)
	if _, err := l.Acquire(t.Context()); !errors.Is(err, driver.ErrQueued) {
		t.Fatalf("Acquire = %v, want ErrQueued", err)
	}
	return l
}

// waiting has an acquisition wait, in a goroutine. As the engine does, it calls Acquire again while the lock
// is held.
func waiting(ctx context.Context, l driver.Lock) <-chan error {
	done := make(chan error, 1)
	go func() {
		for {
			if _, err := l.Acquire(ctx); !errors.Is(err, locker.ErrHeld) {
				done <- err
				return
			}
		}
	}()
	return done
}

// placed returns when all servers know that somebody waits.
func placed(t *testing.T, c *cluster) {
	t.Helper()
	eventually(t, func() error {
		for i, s := range c.servers {
			if !slices.ContainsFunc(s.list(), func(c call) bool { return c.script == "acquire" && c.waits }) {
				return fmt.Errorf("server %d doesn't know that somebody waits", i)
			}
		}
		return nil
	})
}

// Who waits subscribes, asks again so that all know of it, and then when a majority says that the
// lock is free.
func TestWaiterIsNotified(t *testing.T) {
	c := newCluster(t, 3, time.Second)
	l := waiter(t, c)
	done := waiting(t.Context(), l)
	placed(t, c)
	c.answer("acquire", raised, raised, raised)
	for _, s := range c.servers[:2] {
		if n := s.publish(t, redlockbackend.LockKey("redlock:", "a", 0)); n != 1 {
			t.Errorf("%d listen, want 1", n)
		}
	}
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Acquire = %v, want a grant", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("Acquire has not returned, and a majority has said that the lock is free")
	}
	eventually(t, func() error { return l.Release(t.Context()) })
}

// A message that is lost costs time and nothing else.
func TestWaiterAsksByItself(t *testing.T) {
	c := newCluster(t, 3, time.Second)
	l := waiter(t, c)
	done := waiting(t.Context(), l)
	placed(t, c)
	c.answer("acquire", raised, raised, raised)
	if err := <-done; err != nil {
		t.Errorf("Acquire = %v, want a grant", err)
	}
	eventually(t, func() error { return l.Release(t.Context()) })
}

// Who gives up leaves its places, on all servers that may know of it.
func TestWaiterLeaves(t *testing.T) {
	c := newCluster(t, 3, time.Second)
	l := waiter(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	done := waiting(ctx, l)
	placed(t, c)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire = %v, want the context's end", err)
	}
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	if err := c.released(t, l); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
	for i, s := range c.servers {
		if !slices.ContainsFunc(s.list(), func(c call) bool { return c.script == "release" && c.waits }) {
			t.Errorf("server %d still has a place: %+v", i, s.list())
		}
	}
}

// Who gives up leaves its places whatever its last attempt is doing: asking, or removing what it may
// have left on servers that didn't answer in time.
func TestWaiterLeavesInTheMiddleOfAnAttempt(t *testing.T) {
	for _, c := range []struct{ script, answer string }{
		{"acquire", waits}, // no lock, and no new place
		{"release", text("released")},
	} {
		t.Run(c.script, func(t *testing.T) {
			all := newCluster(t, 3, time.Second)
			l := waiter(t, all)
			ctx, cancel := context.WithCancel(t.Context())
			done := waiting(ctx, l)
			placed(t, all)
			redlockbackend.AwaitIdle(t.Context(), all.Driver)
			before := all.called(c.script)
			var open []func()
			for _, s := range all.servers {
				s.answers("acquire", silent)
				open = append(open, s.gated(t, c.script, c.answer))
			}
			for _, s := range all.servers {
				s.publish(t, redlockbackend.LockKey("redlock:", "a", 0))
			}
			for i := range all.servers {
				all.asked(t, i, c.script, before[i]+1)
			}
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("Acquire = %v, want the context's end", err)
			}
			returned := make(chan struct{})
			go func() {
				defer close(returned)
				_ = l.Release(t.Context()) // a majority may not have confirmed it yet
			}()
			eventually(t, func() error {
				if !redlockbackend.HasLeft(l) {
					return errors.New("Release has not begun")
				}
				return nil
			})
			for _, answer := range open {
				answer()
			}
			<-returned
			redlockbackend.AwaitIdle(t.Context(), all.Driver)
			if err := all.released(t, l); err != nil {
				t.Errorf("Release = %v, want nil", err)
			}
			for i, s := range all.servers {
				if !slices.ContainsFunc(s.list(), func(c call) bool { return c.script == "release" && c.waits }) {
					t.Errorf("server %d still has a place: %+v", i, s.list())
				}
			}
		})
	}
}

// Servers that know a Locker's place may notify it before it has to wait.
func TestWaiterIsNotifiedAtOnce(t *testing.T) {
	c := newCluster(t, 3, 5*time.Second)
	first := waiter(t, c)
	done := waiting(t.Context(), first)
	placed(t, c)
	c.answer("acquire", raised, raised, raised)
	for _, s := range c.servers {
		s.publish(t, redlockbackend.LockKey("redlock:", "a", 0))
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return first.Release(t.Context()) })

	heldFor := text("held 3600000 100 A") // so it would ask by itself in a minute or two
	for _, s := range c.servers {
		s.does("acquire", func() string {
			s.publish(t, redlockbackend.LockKey("redlock:", "a", 0))
			time.Sleep(100 * time.Millisecond)
			return heldFor
		})
	}
	l := c.lock(t, false)
	if _, err := l.Acquire(t.Context()); !errors.Is(err, driver.ErrQueued) {
		t.Fatalf("Acquire = %v, want ErrQueued", err)
	}
	c.answer("acquire", raised, raised, raised)
	select {
	case err := <-waiting(t.Context(), l):
		if err != nil {
			t.Errorf("Acquire = %v, want a grant", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("Acquire has not returned, and all servers had said that the lock is free")
	}
	eventually(t, func() error { return l.Release(t.Context()) })
}

// An acquisition that fails may have a place on a server all the same.
func TestFailedOneLeaves(t *testing.T) {
	const oom = "-OOM command not allowed\r\n"
	c := newCluster(t, 3, time.Second)
	first := waiter(t, c)
	done := waiting(t.Context(), first)
	placed(t, c)
	c.answer("acquire", heldByA, oom, oom)
	l := c.lock(t, false)
	if _, err := l.Acquire(t.Context()); err == nil || errors.Is(err, driver.ErrQueued) {
		t.Fatalf("Acquire = %v, want an error that is not ErrHeld", err)
	}
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	if err := c.released(t, l); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
	if !slices.ContainsFunc(c.servers[0].list(), func(c call) bool { return c.script == "release" && c.waits }) {
		t.Error("its place was not given up")
	}
	c.answer("acquire", raised, raised, raised)
	if err := <-done; err != nil {
		t.Error(err)
	}
	eventually(t, func() error { return first.Release(t.Context()) })
}

// A place is also given up while the Locker subscribes again.
func TestDeafOneLeaves(t *testing.T) {
	c := newCluster(t, 3, time.Second)
	for _, s := range c.servers {
		s.mu.Lock()
		s.deaf = true
		s.mu.Unlock()
	}
	l := waiter(t, c)
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	if err := c.released(t, l); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
	for i, s := range c.servers {
		if !slices.ContainsFunc(s.list(), func(c call) bool { return c.script == "release" && c.waits }) {
			t.Errorf("server %d was not asked to remove the place: %+v", i, s.list())
		}
	}
}

// Those who came before may be dead: who wants a lock whose lease has expired asks within the time
// that Guarantees names.
func TestWaiterAsksSoonAfterExpiry(t *testing.T) {
	const expiry = 500 * time.Millisecond
	slack := redlockbackend.Guarantees().Expiry.Slack
	for _, rank := range []int{0, 5, 20, 100} {
		for range 100 {
			held := redlockbackend.Reply{Text: fmt.Sprintf("held %d %d A", expiry.Milliseconds(), rank)}
			after := redlockbackend.PollAfter([]redlockbackend.Reply{held, held, held})
			if after > expiry+slack {
				t.Fatalf("rank %d asks %v after the expiry, want %v at most", rank, after-expiry, slack)
			}
		}
	}
}

// When a lease begins, the next waiters are told when to ask: they may know a longer one. That counts also
// if it comes while the waiter asks, because the answers may be older.
func TestWaiterIsToldWhenToAsk(t *testing.T) {
	key := redlockbackend.LockKey("redlock:", "a", 0)
	for what, tell := range map[string]func(t *testing.T, c *cluster){
		"while it waits": func(t *testing.T, c *cluster) {
			redlockbackend.AwaitIdle(t.Context(), c.Driver)
			c.servers[0].publish(t, key+" 60000")
			c.servers[0].publish(t, key+" 20")
			c.servers[1].publish(t, key+" 60000")
		},
		"while it asks": func(t *testing.T, c *cluster) {
			redlockbackend.AwaitIdle(t.Context(), c.Driver)
			for _, s := range c.servers {
				s.does("acquire", func() string {
					s.answers("acquire", raised)
					s.publish(t, key+" 200")
					time.Sleep(100 * time.Millisecond)
					return text("held 3600000 100 A")
				})
			}
			c.servers[0].publish(t, key+" 0")
		},
	} {
		t.Run(what, func(t *testing.T) {
			c := newCluster(t, 3, 5*time.Second)
			l := waiter(t, c)
			c.answer("acquire", slices.Repeat([]string{text("held 3600000 100 A")}, 3)...) // so it asks by itself in a minute or two
			done := waiting(t.Context(), l)
			placed(t, c)
			c.answer("acquire", raised, raised, raised)
			tell(t, c)
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("Acquire = %v, want a grant", err)
				}
			case <-time.After(30 * time.Second):
				t.Error("Acquire has not returned, and it was told when to ask")
			}
			eventually(t, func() error { return l.Release(t.Context()) })
		})
	}
}

// The key of a lock that is free is never taken for one with a time.
func TestMessages(t *testing.T) {
	for _, key := range []string{
		redlockbackend.LockKey("redlock:", "a", 0), redlockbackend.LockKey("p 5", "a 5", 0),
		redlockbackend.LockKey("5 5:", "5", 5), redlockbackend.LockKey("", "a 5", locker.LineSlot),
	} {
		for text, within := range map[string]time.Duration{key: 0, key + " 0": 0, key + " 1200": 1200 * time.Millisecond} {
			got, free, in := redlockbackend.ParseMessage(text)
			if got != key || free != (text == key) || in != within {
				t.Errorf("the message %q = %q, free: %v, %v; want %q", text, got, free, in, key)
			}
		}
	}
}
