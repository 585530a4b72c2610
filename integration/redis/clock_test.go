//go:build unix

package redis

import (
	"strconv"
	"testing"
	"time"

	"github.com/fencedlock/locker/integration/internal/itest"
)

// What becomes of tokens when the server's clock is set back, and what is kept for that.

// Tokens that are ahead of the clock are remembered until it has caught up, however long the lock
// is idle.
func TestRedisTokenAheadOfClock(t *testing.T) {
	b := NewBench(t)
	const back = 10 * time.Hour
	last := b.Admin.Time(t.Context()).Val().Add(back).UnixMicro()
	b.set(":token", strconv.FormatInt(last, 10), itest.LongTTL)
	a := b.acquisition("")
	if token := want(t, a.acquire(), isGranted); token != last+1 {
		t.Errorf("token %d follows %d, want %d", token, last, last+1)
	}
	for _, step := range []func(){func() {}, func() { a.renew() }, a.release} {
		step()
		if left := b.left(":token"); left < back+time.Hour-itest.ShortWait || left > back+time.Hour+itest.LongTTL {
			t.Errorf("the last token is kept for %v, and the clock needs %v to get there", left, back)
		}
	}
}

// When a long lease has ended, no key remains for as long as the lease was.
func TestRedisLongLeaseLeavesLittle(t *testing.T) {
	b := NewBench(t)
	a := b.acquisition("")
	a.ttl = 365 * 24 * time.Hour
	want(t, a.acquire(), isGranted)
	for _, step := range []func(){func() {}, func() { a.renew() }, a.release} {
		step()
		if left := b.left(":token"); left < time.Hour || left > 2*time.Hour {
			t.Errorf("the last token is kept for %v, want an hour or two", left)
		}
	}
	a.release() // for which there is nothing to do
	if left := b.left(":tomb:" + a.owner); left <= time.Hour || left > 24*time.Hour {
		t.Errorf("a tombstone is kept for %v, want at most a day", left)
	}
}
