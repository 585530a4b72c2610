package etcdbackend_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/etcdbackend"
)

// Each member raises a short TTL by its own election timeout, for itself: what one answers to a
// Grant is not what another one, which may be the leader, counts with. All have what was asked for.
func TestRaisedTTL(t *testing.T) {
	raise := func(asked int64) int64 { return max(asked, 10) }
	var c cluster
	c.ttlOf = raise
	d := c.start(t)
	onlyLease := func(l driver.Lock) (least time.Duration, all int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return time.Duration(c.least[c.get(etcdbackend.KeyOf(l)).Lease]) * time.Second, len(c.leases)
	}

	l, g := acquire(t, d, "n", 2*time.Second)
	if least, _ := onlyLease(l); g.TTL != 10*time.Second || least < g.TTL {
		t.Errorf("granted for %v on an etcd lease that a leader may end after %v, want 10s and no less", g.TTL, least)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, all := onlyLease(l); all == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the etcd lease that was raised is not revoked")
		}
	}

	// A holder of it counts on the longer one, also when the next member would grant less.
	c.elect()
	c.ttlOf = nil
	if err := etcdbackend.Replace(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if errs := renew(t, d, l); errs[0] != nil {
		t.Errorf("Renew = %v", errs[0])
	}
	if least, _ := onlyLease(l); least < g.TTL {
		t.Errorf("moved to an etcd lease of %v, want %v or more", least, g.TTL)
	}

	// Nobody does any more, so the next etcd lease is asked for what the caller wants.
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.elect()
	if err := etcdbackend.Replace(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	l, g = acquire(t, d, "n", 2*time.Second)
	if least, _ := onlyLease(l); g.TTL != 2*time.Second || least != g.TTL {
		t.Errorf("granted for %v on an etcd lease of %v, want 2s: nothing raises it", g.TTL, least)
	}
}

// Where each member that is asked raises it more than the last, it is asked for until one of them
// doesn't.
func TestRaisedAgain(t *testing.T) {
	var c cluster
	c.ttlOf = func(asked int64) int64 {
		for _, least := range []int64{3, 5, 8} {
			if asked < least {
				return least
			}
		}
		return asked
	}
	d := c.start(t)
	_, g := acquire(t, d, "n", 2*time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	if want := []int64{2, 3, 5, 8}; g.TTL != 8*time.Second || !slices.Equal(c.asked[len(c.asked)-len(want):], want) {
		t.Errorf("granted for %v after it was asked for %d s, want 8s after %d", g.TTL, c.asked, want)
	}
}
