//go:build unix

package redis

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

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
