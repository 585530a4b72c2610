//go:build unix

package integration

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/redisbackend"
)

// What a Locker does when a server has in it what no Locker would leave there.

// What somebody else has written to the key holds the lock, whatever it is.
func TestRedisForeignValues(t *testing.T) {
	b := newBench(t)
	l := b.service.open(t)
	for _, value := range []string{"", "x", "a b c", "owner 1.5", "owner -1", "42"} {
		b.set("", value, far)
		if _, err := locker.TryAcquire(t.Context(), l, b.name); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquire of a lock with the value %q = %v, want ErrHeld", value, err)
		}
		if got := b.admin.Get(t.Context(), key(b.name)).Val(); got != value {
			t.Errorf("the value %q has become %q", value, got)
		}
	}
	lease := acquire(t, l, b.name+"-")
	for _, name := range []string{b.name, b.name + "-"} {
		b.admin.Del(t.Context(), key(name))
		b.admin.RPush(t.Context(), key(name), "x")
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

// An expiry that somebody has taken off is set again by the holder, and makes no waiter ask all the time.
func TestRedisPersisted(t *testing.T) {
	b := newBench(t)
	l, other := keep(t, b.service.open(t)), keep(t, b.service.open(t))
	lease := acquire(t, l, b.name, locker.WithTTL(far))
	b.admin.Persist(t.Context(), key(b.name))
	before := b.service.requests(t)
	waiter := wait(t, other, b.name, locker.WithTTL(far))
	eventually(t, soon, func() error { return b.service.queued(t, b.name, 1) })
	pass(t, shortTTL)
	if n := b.service.requests(t) - before; n > 10 {
		t.Errorf("a waiter has sent %d requests in %v", n, shortTTL)
	}
	if err := lease.Renew(t.Context()); err != nil {
		t.Errorf("Renew = %v, want nil", err)
	}
	if left := b.left(""); left < far-soon {
		t.Errorf("after Renew the key has %v, want a TTL", left)
	}
	release(t, lease)
	release(t, waiter.granted(t, soon))
}

// A late copy of a request may queue for an acquisition that is over. When its turn comes, its Locker gives the lock back.
func TestRedisGrantToNobody(t *testing.T) {
	b := newBench(t)
	l, other := keep(t, b.service.open(t)), keep(t, b.service.open(t))
	lease := acquire(t, l, b.name, locker.WithTTL(far))
	waiter := wait(t, other, b.name, locker.WithTTL(far))
	eventually(t, soon, func() error { return b.service.queued(t, b.name, 1) })
	var channel string
	for _, place := range b.admin.HGetAll(t.Context(), key(b.name)+":waiters").Val() {
		channel = strings.SplitN(place, " ", 4)[3]
	}
	want(t, b.acquisition(channel).acquire(), isQueued)
	release(t, lease)
	release(t, waiter.granted(t, soon))
	free(t, soon, l, b.name) // far before its TTL
}

// elsewhere is a client whose subscriptions lead to another server than its scripts, as one that reads from replicas may be.
type elsewhere struct {
	redis.UniversalClient
	other redis.UniversalClient
}

func (e elsewhere) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	return e.other.Subscribe(ctx, channels...)
}

// A subscription on a replica is told everything, but the master doesn't see it.
func TestRedisSubscribesElsewhere(t *testing.T) {
	needServers(t)
	s, name := redisSentinel(t), lockName(t)
	clients := make(map[string]*redis.Client)
	for _, n := range s.nodes {
		role, err := n.role(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		clients[role] = redis.NewClient(&redis.Options{Addr: n.addr, Password: redisPassword})
		t.Cleanup(func() { _ = clients[role].Close() })
	}
	l, err := redisbackend.New(t.Context(), elsewhere{clients["master"], clients["slave"]})
	if err != nil {
		t.Fatalf("New = %v, want a Locker that polls", err)
	}
	keep(t, l)
	if g := l.Guarantees(); g.Order != locker.OrderNone || g.Waiting != locker.WaitingPolled {
		t.Errorf("Guarantees = %v, want no order and polling", g)
	}
	other := keep(t, s.open(t))
	lease := acquire(t, other, name)
	waiter := wait(t, l, name)
	pass(t, shortTTL)
	if err := s.queued(t, name, 0); err != nil {
		t.Error(err)
	}
	release(t, lease)
	release(t, waiter.granted(t, soon))
}
