//go:build unix

package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/integration/internal/itest"
)

// The scripts with one key each, which a Locker of a Cluster calls in the place of renew and
// release.

func (a *acquisition) one(script string, standing int64) (token int64) {
	a.t.Helper()
	return want(a.t, a.call(script+"_one", "", ""), standing)
}

func TestRedisOneKeyScripts(t *testing.T) {
	b := NewBench(t)
	holder, other := b.acquisition(""), b.acquisition("")
	other.one("renew", isGone)
	token := want(t, holder.acquire(), isGranted)
	b.Admin.PExpire(t.Context(), key(b.Name), itest.LongTTL/2)
	other.one("renew", isGone)
	other.one("release", isGone)
	if left := b.left(""); left > itest.LongTTL/2 || left < itest.LongTTL/2-itest.ShortWait {
		t.Errorf("after requests of somebody else the lease has %v, want it as it was", left)
	}
	if again := holder.one("renew", isGranted); again != token {
		t.Errorf("a renewal returns token %d, want %d", again, token)
	}
	if left := b.left(""); left < itest.LongTTL-itest.ShortWait {
		t.Errorf("a renewal leaves %v, want a TTL", left)
	}
	b.Admin.Persist(t.Context(), key(b.Name))
	holder.one("renew", isGranted)
	if left := b.left(""); left < itest.LongTTL-itest.ShortWait {
		t.Errorf("a renewal of a key without expiry leaves %v, want a TTL", left)
	}
	for range 2 {
		holder.one("release", isGone)
		if b.left("") >= 0 {
			t.Errorf("the lock is held after its release")
		}
		holder.one("renew", isGone)
	}

	for _, value := range []string{"", "x", holder.owner, holder.owner + " x", holder.owner + "1 1"} {
		b.set("", value, itest.LongTTL)
		holder.one("renew", isGone)
	}
	b.Admin.Del(t.Context(), key(b.Name))
	b.Admin.RPush(t.Context(), key(b.Name), "x")
	holder.one("renew", isGone)
	holder.one("release", isGone)
	if n := b.Admin.Exists(t.Context(), key(b.Name)).Val(); n != 1 {
		t.Errorf("what somebody else has put there is gone")
	}
	b.Admin.Del(t.Context(), key(b.Name))

	late := b.acquisition("")
	late.one("tombstone", isGone)
	if left := b.left(":tomb:" + late.owner); left < itest.LongTTL-itest.ShortWait || left > itest.LongTTL {
		t.Errorf("the tombstone is kept for %v, want a TTL", left)
	}
	want(t, late.acquire(), isGone)
	late.ttl = 48 * time.Hour
	late.one("tombstone", isGone)
	if left := b.left(":tomb:" + late.owner); left < 24*time.Hour-itest.ShortWait || left > 24*time.Hour {
		t.Errorf("the tombstone of a long lease is kept for %v, want a day", left)
	}
}

// Whatever comes later, a tombstone lasts as long as the request that has made it says. A Locker that
// releases what was granted to an acquisition that is over doesn't know its TTL.
func TestRedisTombstoneIsNotShortened(t *testing.T) {
	b := NewBench(t)
	for _, c := range []struct {
		first, then string
		late        string
	}{{"release", "release", ""}, {"release", "release", "late"}, {"tombstone_one", "tombstone_one", ""}, {"release", "break", ""}} {
		a := b.acquisition("")
		const long = 2 * itest.LongTTL
		a.ttl = long
		want(t, a.call(c.first, "", c.late), isGone)
		a.ttl = itest.LongTTL
		if c.then == "break" { // of a ghost
			b.set("", a.owner+" 7", itest.LongTTL)
			want(t, a.take("break", 7, "now", "bob"), isGranted)
		} else {
			want(t, a.call(c.then, "", c.late), isGone)
		}
		if left := b.left(":tomb:" + a.owner); left < long-itest.ShortWait || left > long {
			t.Errorf("after %s with %v and %s with %v the tombstone is kept for %v", c.first, long, c.then, a.ttl, left)
		}
		a.ttl = 2 * long
		want(t, a.call(c.first, "", c.late), isGone)
		if left := b.left(":tomb:" + a.owner); left < 2*long-itest.ShortWait || left > 2*long {
			t.Errorf("after %s with %v the tombstone is kept for %v", c.first, a.ttl, left)
		}
	}
}

// The last token is kept for an hour longer than the lease. It is renewed every 50 s, and with each
// renewal that is rarer.
func TestRedisOneKeyKeepsTheLastToken(t *testing.T) {
	b := NewBench(t)
	a := b.acquisition("")
	a.one("keep", isGone)
	if left := b.left(":token"); left != -2 {
		t.Errorf("a token that was never given out is kept for %v", left)
	}
	want(t, a.acquire(), isGranted)
	for _, c := range []struct{ ttl, before, least, most time.Duration }{
		{itest.LongTTL, itest.LongTTL, time.Hour + 2*itest.LongTTL, time.Hour + 2*itest.LongTTL},
		{itest.LongTTL, time.Hour + itest.LongTTL - time.Second, time.Hour + 2*itest.LongTTL, time.Hour + 2*itest.LongTTL},
		{itest.LongTTL, time.Hour + itest.LongTTL + itest.ShortWait, time.Hour + itest.LongTTL, time.Hour + itest.LongTTL + itest.ShortWait}, // it is enough
		{itest.LongTTL, 5 * time.Hour, 5 * time.Hour, 5 * time.Hour},                                                                         // the clock is behind it
		{10 * time.Hour, itest.LongTTL, 2 * time.Hour, 2 * time.Hour},
	} {
		a.ttl = c.ttl
		b.Admin.PExpire(t.Context(), key(b.Name)+":token", c.before)
		a.one("keep", isGone)
		if left := b.left(":token"); left < c.least-itest.ShortWait || left > c.most {
			t.Errorf("of a lease of %v a token that was kept for %v is kept for %v, want %v to %v", c.ttl, c.before, left, c.least, c.most)
		}
	}
}

// What is not of the type of a queue keeps no holder from renewing and releasing its lock, and gets
// nothing added to it.
func TestRedisForeignQueue(t *testing.T) {
	b := NewBench(t)
	b.listen("one")
	for _, suffix := range []string{":waiters", ":queue"} {
		k := key(b.Name) + suffix
		other := map[string]string{":waiters": key(b.Name) + ":queue", ":queue": key(b.Name) + ":waiters"}[suffix]
		holder, waiter := b.acquisition(""), b.acquisition("one")
		want(t, holder.acquire(), isGranted)
		b.set(suffix, "x", 0)
		if answer, err := waiter.try("acquire", "one", ""); err == nil || !redis.HasErrorPrefix(err, "WRONGTYPE") {
			t.Errorf("%s is a string, and acquire = %v, %v, want WRONGTYPE", suffix, answer, err)
		}
		if n := b.Admin.Exists(t.Context(), other).Val(); n != 0 {
			t.Errorf("%s is a string, and an acquisition that failed has left %s", suffix, other)
		}
		want(t, holder.renew(), isGranted)
		holder.release()
		if n := b.Admin.Exists(t.Context(), key(b.Name)).Val(); n != 0 {
			t.Errorf("%s is a string, and the lock is held after its release", suffix)
		}
		waiter.release()
		if got := b.Admin.Get(t.Context(), k).Val(); got != "x" {
			t.Errorf("%s has become %q", suffix, got)
		}
		b.Admin.Del(t.Context(), k)

		// The same while somebody waits.
		if suffix == ":queue" {
			continue // there is no place without it
		}
		holder, waiter = b.acquisition(""), b.acquisition("one")
		want(t, holder.acquire(), isGranted)
		want(t, waiter.acquire(), isQueued)
		b.Admin.Del(t.Context(), k)
		b.set(suffix, "x", 0)
		holder.release()
		if n := b.Admin.Exists(t.Context(), key(b.Name)).Val(); n != 0 {
			t.Errorf("%s has become a string, and the lock is held after its release", suffix)
		}
		b.Admin.Del(t.Context(), k, other)
	}
}

// What is not of the type of a queue keeps no free lock from those who ask, and a holder learns of a loss
// and of a mark.
func TestRedisForeignQueueOfAFreeLock(t *testing.T) {
	b := NewBench(t)
	b.listen("one")
	for _, c := range []struct {
		foreign string
		queued  bool // somebody waits before
	}{{":queue", false}, {":waiters", false}, {":queue", true}, {":waiters", true}} {
		t.Run(fmt.Sprint(c.foreign, " of somebody who waits: ", c.queued), func(t *testing.T) {
			k := key(b.Name)
			holder, waiter, next := b.acquisition("one"), b.acquisition("one"), b.acquisition("one")
			token := want(t, holder.acquire(), isGranted)
			if c.queued {
				want(t, waiter.acquire(), isQueued)
			}
			b.Admin.Del(t.Context(), k+c.foreign)
			b.set(c.foreign, "x", 0)

			want(t, holder.take("break", token, "", "bob"), isRefused)
			holder.wantBreach("renew", holder.renew(), isBroken, "bob")
			b.Admin.Del(t.Context(), k, k+":tomb:"+holder.owner)
			want(t, holder.renew(), isGone)
			for range 2 {
				want(t, next.acquire(), isGranted)
				want(t, next.renew(), isGranted)
				want(t, holder.askNoWait(), isRefused)
				want(t, next.acquire(), isGranted) // again
				next.release()
			}
			want(t, next.askNoWait(), isGranted)
			next.release()
			if got := b.Admin.Get(t.Context(), k+c.foreign).Val(); got != "x" {
				t.Errorf("%s has become %q", c.foreign, got)
			}
			b.Admin.Del(t.Context(), k+":queue", k+":waiters")
		})
	}
}
