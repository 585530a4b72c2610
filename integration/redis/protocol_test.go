//go:build unix

package redis

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// These tests run the protocol of the Redis backend on a server, script by script. Each step is a
// request that a Locker could have sent, in situations that are hard to cause with a Locker: two
// copies of a request, a place of any age, a clock that was set back.

func TestRedisTokens(t *testing.T) {
	b := NewBench(t)
	next := func() int64 {
		t.Helper()
		a := b.acquisition("")
		token := want(t, a.acquire(), isGranted)
		a.release()
		return token
	}
	seconds := b.Admin.Time(t.Context()).Val()
	if token := next(); token < seconds.UnixMicro() || token > seconds.Add(step.Limit).UnixMicro() {
		t.Errorf("the first token is %d, want the server's clock, %d µs", token, seconds.UnixMicro())
	}
	if left := b.left(":token"); left < time.Hour || left > time.Hour+itest.LongTTL {
		t.Errorf("the last token is kept for %v, want an hour longer than the lease", left)
	}
	for _, last := range []int64{
		seconds.Add(time.Hour).UnixMicro(), // the clock was set back
		1<<53 - 1, 1 << 53, 1<<53 + 1,      // Lua's numbers end
		1<<62 + 1, math.MaxInt64 - 2,
	} {
		b.set(":token", strconv.FormatInt(last, 10), time.Hour)
		for i := range int64(2) {
			if token := next(); token != last+1+i {
				t.Errorf("token %d follows %d, want %d", token, last+i, last+1+i)
			}
		}
		if left := b.left(":token"); left < time.Hour {
			t.Errorf("the last token is kept for %v", left)
		}
	}

	// There is none after the largest. That is an error, and nothing has happened.
	_, err := b.acquisition("").try("acquire", "", "")
	if err == nil || !strings.Contains(err.Error(), "overflow") {
		t.Errorf("after the largest token: %v, want an error that speaks of an overflow", err)
	}
	if n := b.Admin.Exists(t.Context(), key(b.Name)).Val(); n != 0 {
		t.Errorf("the lock is held by an acquisition that has failed")
	}
	b.set(":token", "no number", time.Hour)
	if token := next(); token < seconds.UnixMicro() {
		t.Errorf("token %d, want the clock where the last one can't be read", token)
	}

	// A lease that is held for long keeps the last token alive, at any time for an hour longer than
	// itself.
	a := b.acquisition("")
	token := want(t, a.acquire(), isGranted)
	for _, left := range []time.Duration{time.Minute, 40 * time.Minute, time.Hour, time.Hour + itest.LongTTL - time.Second} {
		b.Admin.PExpire(t.Context(), key(b.Name)+":token", left)
		if got := want(t, a.renew(), isGranted); got != token {
			t.Errorf("a renewal returns token %d, want %d", got, token)
		}
		if lease, left := b.left(""), b.left(":token"); left < lease+time.Hour || left > lease+time.Hour+2*time.Minute {
			t.Errorf("after a renewal the last token is kept for %v and the lease for %v, want an hour longer", left, lease)
		}
	}
	a.release()
}

// A request that is sent twice does no harm.
func TestRedisScriptsMayBeRepeated(t *testing.T) {
	b := NewBench(t)
	b.listen("one")
	holder, waiter := b.acquisition(""), b.acquisition("one")
	token := want(t, holder.acquire(), isGranted)
	b.Admin.PExpire(t.Context(), key(b.Name), itest.LongTTL/2)
	if again := want(t, holder.acquire(), isGranted); again != token {
		t.Errorf("acquire once more gives token %d, want %d", again, token)
	}
	if left := b.left(""); left < itest.LongTTL-itest.ShortWait {
		t.Errorf("acquire once more leaves %v, want a TTL", left)
	}
	want(t, waiter.acquire(), isQueued)
	want(t, waiter.acquire(), isQueued)
	b.queue(waiter)
	holder.release()
	if got := want(t, waiter.acquire(), isGranted); got <= token {
		t.Errorf("token %d after %d", got, token)
	}
	holder.release() // a late copy
	want(t, waiter.renew(), isGranted)
	waiter.release()
	want(t, waiter.renew(), isGone)
	want(t, holder.renew(), isGone)
	waiter.release()
	b.queue()
	if n := b.Admin.Exists(t.Context(), key(b.Name)).Val(); n != 0 {
		t.Errorf("the lock is held, and everybody has released it")
	}
}

func TestRedisTombstone(t *testing.T) {
	b := NewBench(t)
	b.listen("one")
	late := b.acquisition("one")
	late.ttl = itest.ShortTTL
	late.release() // overtakes
	want(t, late.acquire(), isGone)
	if n := b.Admin.Exists(t.Context(), key(b.Name)).Val(); n != 0 {
		t.Errorf("a request that came after its release has made a lock")
	}

	// An acquisition that got its answer gets no tombstone, unless another copy of its request may
	// be in flight.
	sure, unsure := b.acquisition(""), b.acquisition("")
	sure.ttl, unsure.ttl = itest.ShortTTL, itest.ShortTTL
	want(t, sure.acquire(), isGranted)
	sure.release()
	want(t, unsure.acquire(), isGranted)
	want(t, unsure.call("release", "", "late"), isGone)
	if left := b.left(":tomb:" + sure.owner); left >= 0 {
		t.Errorf("a release without doubt leaves a tombstone for %v", left)
	}
	if left := b.left(":tomb:" + unsure.owner); left <= 0 || left > itest.ShortTTL {
		t.Errorf("a release in doubt leaves a tombstone for %v, want a TTL", left)
	}
	want(t, unsure.acquire(), isGone)
	step.Eventually(t, itest.ShortTTL+itest.ShortWait, func() error {
		if keys := b.Admin.Keys(t.Context(), key(b.Name)+":tomb:*").Val(); len(keys) > 0 {
			return fmt.Errorf("there are %q", keys)
		}
		return nil
	})
}

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
	b.Admin.PExpire(t.Context(), key(b.Name), itest.ShortTTL)
	want(t, between.acquire(), isQueued)
	long.release()
	if ms := heard(three, last); ms <= 0 || ms > itest.ShortTTL.Milliseconds() {
		t.Errorf("it was notified to ask in %d ms, want at most %v", ms, itest.ShortTTL)
	}
}
