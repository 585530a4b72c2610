//go:build unix

package redis

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/integration/internal/itest"
)

// The queue of the scripts, on a server.

func TestRedisQueue(t *testing.T) {
	b := NewBench(t)
	one, two := b.listen("one"), b.listen("two")
	holder, first, second, third := b.acquisition(""), b.acquisition("one"), b.acquisition("two"), b.acquisition("two")
	want(t, holder.acquire(), isGranted)
	for i, a := range []*acquisition{first, second, third} {
		answer := a.acquire()
		if want(t, answer, isQueued); answer[3] != int64(i) {
			t.Errorf("the answer is %v, want rank %d", answer, i)
		}
	}
	b.queue(first, second, third)
	for _, suffix := range []string{":queue", ":waiters"} {
		if left := b.left(suffix); left < itest.LongTTL-itest.ShortWait || left > itest.LongTTL {
			t.Errorf("%s is kept for %v, want a TTL", suffix, left)
		}
	}

	// Nobody overtakes, and an owner that doesn't listen isn't queued.
	holder.release()
	want(t, b.acquisition("").askNoWait(), isRefused)
	want(t, b.acquisition("nobody").acquire(), isRefused)
	b.hears(one, first.owner)
	b.queue(second, third)

	// The grant is for what is left of the TTL since the last refresh, and says which that was.
	mark := stamps + 1
	want(t, second.renew(), isQueued)
	b.age(second, itest.LongTTL/2)
	first.release()
	if left := b.left(""); left > itest.LongTTL/2 || left < itest.LongTTL/2-itest.ShortWait {
		t.Errorf("the lease has %v, want half a TTL: the last sign of life was that long ago", left)
	}
	token := strings.Fields(b.Admin.Get(t.Context(), key(b.Name)).Val())[1]
	b.hears(two, second.owner, token, strconv.Itoa(mark), key(b.Name))
	if got := want(t, second.renew(), isGranted); strconv.FormatInt(got, 10) != token {
		t.Errorf("a renewal returns token %d, want %s", got, token)
	}
	if left := b.left(""); left < itest.LongTTL-itest.ShortWait {
		t.Errorf("after a renewal the lease has %v, want a TTL", left)
	}

	// A waiter that leaves, and a lease that expires.
	fourth := b.acquisition("one")
	want(t, fourth.acquire(), isQueued)
	third.release()
	b.queue(fourth)
	b.Admin.Del(t.Context(), key(b.Name))
	want(t, b.acquisition("").askNoWait(), isRefused)
	b.hears(one, fourth.owner)
	fourth.release()
	for _, k := range b.Admin.Keys(t.Context(), key(b.Name)+"*").Val() {
		if !Harmless.MatchString(k) {
			t.Errorf("key %q is left", k)
		}
	}
}

// A waiter that looks dead is passed over. It keeps its place until it is stale.
func TestRedisPassesOver(t *testing.T) {
	b := NewBench(t)
	two := b.listen("two")
	b.listen("one")
	holder, gone, stale, alive := b.acquisition(""), b.acquisition("one"), b.acquisition("two"), b.acquisition("two")
	want(t, holder.acquire(), isGranted)
	for _, a := range []*acquisition{gone, stale, alive} {
		want(t, a.acquire(), isQueued)
	}
	// Its Locker has gone.
	place := b.Admin.HGet(t.Context(), key(b.Name)+":waiters", gone.owner).Val()
	b.Admin.HSet(t.Context(), key(b.Name)+":waiters", gone.owner, strings.Replace(place, "one", "nobody", 1))
	b.age(stale, itest.LongTTL*2/3)
	holder.release()
	b.hears(two, alive.owner)
	b.queue(gone)
	want(t, stale.renew(), isGone)

	// It comes back: its turn has come when it asks, whether it listens or not.
	alive.release()
	want(t, b.acquisition("").askNoWait(), isGranted) // nobody was there
	b.Admin.Del(t.Context(), key(b.Name))
	want(t, gone.renew(), isGranted)
	b.queue()
	gone.release()
}

// The dead before a waiter don't stay for as long as the lock is held: it takes out those right
// before it, a few at a time.
func TestRedisSweeps(t *testing.T) {
	b := NewBench(t)
	b.listen("one")
	holder := b.acquisition("")
	want(t, holder.acquire(), isGranted)
	ranked := func(answer []any, rank int) {
		t.Helper()
		if want(t, answer, isQueued); answer[3] != int64(rank) {
			t.Errorf("the answer is %v, want rank %d", answer, rank)
		}
	}
	var old []*acquisition
	for i := range 20 {
		a := b.acquisition("one")
		ranked(a.acquire(), i)
		old = append(old, a)
	}
	for i, a := range old[1:] {
		age := itest.LongTTL // dead
		if i == 14 {
			age = itest.LongTTL * 2 / 3 // stale: it may come back
		}
		b.age(a, age)
	}
	last := b.acquisition("one")
	ranked(last.acquire(), 13)
	ranked(last.renew(), 6)
	ranked(last.renew(), 2)
	b.queue(old[0], old[15], last)
	want(t, old[1].renew(), isGone)
	want(t, old[15].renew(), isQueued)
	ranked(last.acquire(), 2)
	old[0].release()
	old[15].release()
	last.release()
	b.queue()
	holder.release()
}

// The next waiters are notified when the new lease will end, unless they ask earlier by themselves.
func TestRedisAlert(t *testing.T) {
	b := NewBench(t)
	one, two, three := b.listen("one"), b.listen("two"), b.listen("three")
	holder, short, long, last := b.acquisition(""), b.acquisition("one"), b.acquisition("two"), b.acquisition("three")
	short.ttl = itest.ShortTTL
	want(t, holder.acquire(), isGranted)
	for _, a := range []*acquisition{short, long, last} {
		want(t, a.acquire(), isQueued)
	}
	holder.release()
	b.hears(one, short.owner)
	heard := func(messages <-chan *redis.Message, a *acquisition) int64 {
		t.Helper()
		select {
		case m := <-messages:
			owner, left, _ := strings.Cut(m.Payload, " ")
			ms, err := strconv.ParseInt(left, 10, 64)
			if owner != a.owner || err != nil {
				t.Fatalf("heard %q, want %s and milliseconds", m.Payload, a.owner)
			}
			return ms
		case <-time.After(itest.ShortWait):
			t.Fatalf("nothing was heard, and a lease of %v has begun before one with %v", short.ttl, a.ttl)
		}
		return 0
	}
	first, second := heard(two, long), heard(three, last)
	if first <= 0 || first > itest.ShortTTL.Milliseconds() || second != first+20 {
		t.Errorf("they were notified to ask in %d and %d ms, want at most %v, one after the other", first, second, itest.ShortTTL)
	}

	// The same applies when the waiter before them gives up.
	between := b.acquisition("one")
	between.ttl = itest.ShortTTL
	b.Admin.PExpire(t.Context(), key(b.Name), itest.ShortWait)
	want(t, between.acquire(), isQueued)
	long.release()
	if ms := heard(three, last); ms <= 0 || ms > itest.ShortWait.Milliseconds() {
		t.Errorf("it was notified to ask in %d ms, want at most %v", ms, itest.ShortWait)
	}
}
