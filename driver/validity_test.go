package driver

import (
	"testing"
	"time"

	"github.com/fencedlock/locker"
)

// ms is a moment on the tests' clock.
func ms(n int64) Instant { return Instant(n * int64(time.Millisecond)) }

func TestValidity(t *testing.T) {
	const ttl = time.Second
	grant := newValidity(Grant{Base: ms(100), TTL: ttl}, ms(150))
	limited := grant
	limited.limit = ms(500)
	endless := newValidity(Grant{Base: ms(100)}, ms(150))

	for _, c := range []struct {
		what      string
		got, want Instant
	}{
		{"the deadline, with 1 % and 2 ms taken off", grant.deadline(), ms(100 + 1000 - 10 - 2)},
		{"the deadline with a shorter longest hold", limited.deadline(), ms(500)},
		{"the deadline without a TTL", endless.deadline(), Never},
		{"the base of a grant from the future", newValidity(Grant{Base: ms(200), TTL: ttl}, ms(150)).base, ms(150)},
		{"the base after a renewal", grant.renewed(ms(300), ms(350)).base, ms(300)},
		{"the base after an older renewal", grant.renewed(ms(50), ms(350)).base, ms(100)},
		{"the base after a renewal from the future", grant.renewed(ms(400), ms(350)).base, ms(350)},
		{"the longest hold's end after a renewal", limited.renewed(ms(300), ms(350)).deadline(), ms(500)},
		{"the next renewal, on the grid of 100 ms", grant.nextRenewal(ms(101)), ms(400)},
		{"the renewal of a lease acquired 60 ms later", grant.nextRenewal(ms(161)), ms(400)},
		{"the next try after a failure, on the grid of 50 ms", grant.retryRenewal(ms(120)), ms(200)},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.what, time.Duration(c.got), time.Duration(c.want))
		}
	}
}

func TestStaleGrant(t *testing.T) {
	for _, c := range []struct {
		age, ttl  time.Duration
		noRenewal bool
		minHold   time.Duration
		want      bool
	}{
		{age: 500 * time.Millisecond, ttl: time.Second, want: false},
		{age: 501 * time.Millisecond, ttl: time.Second, want: true},
		{age: 50 * time.Millisecond, ttl: time.Second, noRenewal: true, want: false},
		{age: 51 * time.Millisecond, ttl: time.Second, noRenewal: true, want: true},
		{age: time.Hour, ttl: 0, want: false},
		{age: time.Hour, ttl: 0, minHold: time.Second, want: false},
		{age: 88 * time.Millisecond, ttl: time.Second, minHold: 900 * time.Millisecond, want: false},
		{age: 89 * time.Millisecond, ttl: time.Second, minHold: 900 * time.Millisecond, want: true},
		{age: 501 * time.Millisecond, ttl: time.Second, minHold: time.Millisecond, want: true},
	} {
		v := newValidity(Grant{Base: ms(100), TTL: c.ttl}, ms(100))
		req := &locker.Request{NoRenewal: c.noRenewal, MinHold: c.minHold}
		if got := v.isStale(ms(100).Add(c.age), req); got != c.want {
			t.Errorf("isStale of a grant that is %v old, TTL %v, noRenewal %v, minimum hold %v: %v, want %v",
				c.age, c.ttl, c.noRenewal, c.minHold, got, c.want)
		}
	}
}

func TestPublishedDeadline(t *testing.T) {
	var d deadline
	d.set(ms(100))
	if d.passed(ms(100) - 1) {
		t.Error("the deadline has passed just before its moment")
	}
	if !d.passed(ms(100)) {
		t.Error("the deadline has not passed at its moment")
	}
}
