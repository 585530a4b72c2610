//go:build unix

package redis

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/redisbackend"
)

// These tests put data on a server that no Locker would store there.

// Any value that another program has written to the key holds the lock.
func TestRedisForeignValues(t *testing.T) {
	b := NewBench(t)
	l := b.Service.Open(t)
	long := strings.Repeat("x\n", 1<<19)
	for _, value := range []string{"", "x", "a b c", "owner 1.5", "owner -1", "42", "\n", "owner 7\x00\xff", "owner 7\n\x00\n\xff", "owner 7\n" + long, long} {
		b.set("", value, itest.LongTTL)
		if _, err := locker.TryAcquire(t.Context(), l, b.Name); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquire of a lock with the value %.30q = %v, want ErrHeld", value, err)
		}
		if got := b.Admin.Get(t.Context(), key(b.Name)).Val(); got != value {
			t.Errorf("the value %.30q has become %.30q", value, got)
		}
	}
	lease := step.Acquire(t, l, b.Name+"-")
	for _, name := range []string{b.Name, b.Name + "-"} {
		b.Admin.Del(t.Context(), key(name))
		b.Admin.RPush(t.Context(), key(name), "x")
		if _, err := locker.TryAcquire(t.Context(), l, name); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquire of a list = %v, want ErrHeld", err)
		}
	}
	if err := lease.Renew(t.Context()); !errors.Is(err, locker.ErrLost) {
		t.Errorf("Renew of a lease in whose place there is a list = %v, want ErrLost", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close = %v, want nil: nothing is left to remove", err)
	}
}

// An expiry that somebody has taken off is set again by the holder, and makes no waiter ask all the
// time.
func TestRedisPersisted(t *testing.T) {
	b := NewBench(t)
	l, other := step.CloseAtEnd(t, b.Service.Open(t)), step.CloseAtEnd(t, b.Service.Open(t))
	lease := step.Acquire(t, l, b.Name, locker.WithTTL(itest.LongTTL))
	b.Admin.Persist(t.Context(), key(b.Name))
	before := b.Service.requests(t)
	waiter := step.StartAcquire(t, other, b.Name, locker.WithTTL(itest.LongTTL))
	step.Eventually(t, itest.ShortWait, func() error { return b.Service.queued(t, b.Name, 1) })
	step.Pass(t, itest.ShortTTL)
	if n := b.Service.requests(t) - before; n > 10 {
		t.Errorf("a waiter has sent %d requests in %v", n, itest.ShortTTL)
	}
	if err := lease.Renew(t.Context()); err != nil {
		t.Errorf("Renew = %v, want nil", err)
	}
	if left := b.left(""); left < itest.LongTTL-itest.ShortWait {
		t.Errorf("after Renew the key has %v, want a TTL", left)
	}
	step.Release(t, lease)
	step.Release(t, waiter.Granted(t, itest.ShortWait))
}

// A late copy of a request may queue for an acquisition that is over, or a server may have missed its
// release. When its turn comes, its Locker gives the lock back.
func TestRedisGrantToNobody(t *testing.T) {
	b := NewBench(t)
	l, other := step.CloseAtEnd(t, b.Service.Open(t)), step.CloseAtEnd(t, b.Service.Open(t))
	lease := step.Acquire(t, l, b.Name, locker.WithTTL(itest.LongTTL))
	ctx, cancel := context.WithCancel(t.Context())
	waiter := step.StartAcquireContext(t, ctx, other, b.Name, locker.WithTTL(itest.LongTTL))
	step.Eventually(t, itest.ShortWait, func() error { return b.Service.queued(t, b.Name, 1) })
	var late *acquisition
	for owner, place := range b.Admin.HGetAll(t.Context(), key(b.Name)+":waiters").Val() {
		channel, _, _ := strings.Cut(strings.SplitN(place, " ", 4)[3], "\n")
		late = b.acquisition(channel)
		late.owner = owner
	}
	cancel()
	waiter.Refused(t, itest.ShortWait, context.Canceled)
	step.Eventually(t, itest.ShortWait, func() error { return b.Service.queued(t, b.Name, 0) })
	want(t, late.acquire(), isQueued)
	step.Release(t, lease)
	step.FreeWithin(t, itest.ShortWait, l, b.Name) // far before its TTL
}

// elsewhere is a client whose subscriptions lead to another server than its scripts, as one that
// reads from replicas may be.
type elsewhere struct {
	redis.UniversalClient
	other redis.UniversalClient
}

func (e elsewhere) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	return e.other.Subscribe(ctx, channels...)
}

// A subscription on a replica receives all messages, but the master doesn't see the subscription.
func TestRedisSubscribesElsewhere(t *testing.T) {
	itest.NeedServers(t)
	s, name := redisSentinel(t), step.LockName(t)
	clients := make(map[string]*redis.Client)
	for _, n := range s.Nodes {
		role, err := n.role(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		clients[role] = redis.NewClient(&redis.Options{Addr: n.Addr, Password: Password})
		t.Cleanup(func() { _ = clients[role].Close() })
	}
	l, err := redisbackend.New(t.Context(), elsewhere{clients["master"], clients["slave"]})
	if err != nil {
		t.Fatalf("New = %v, want a Locker that polls", err)
	}
	step.CloseAtEnd(t, l)
	if g := l.Guarantees(); g.Order != locker.OrderNone || g.Waiting != locker.WaitingPolled {
		t.Errorf("Guarantees = %v, want no order and polling", g)
	}
	other := step.CloseAtEnd(t, s.Open(t))
	lease := step.Acquire(t, other, name)
	waiter := step.StartAcquire(t, l, name)
	step.Pass(t, itest.ShortTTL)
	if err := s.queued(t, name, 0); err != nil {
		t.Error(err)
	}
	step.Release(t, lease)
	step.Release(t, waiter.Granted(t, itest.ShortWait))
}
