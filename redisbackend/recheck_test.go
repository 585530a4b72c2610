package redisbackend_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/redisbackend"
)

// Those who came before may be dead: one that asks when a lease has expired does it within the time
// that Guarantees names.
func TestWaiterAsksSoonAfterExpiry(t *testing.T) {
	const answer = 10 * time.Millisecond // for the request itself, and what Redis rounds
	slack := redisbackend.Guarantees().Expiry.Slack
	for _, rank := range []int{0, 1, 3, 4, 5, 20, 1000000} {
		for range 100 {
			if late := redisbackend.StaggerOf(rank); late < 0 || late > slack-answer || rank > 0 && late == 0 {
				t.Fatalf("rank %d asks %v after the expiry, want it after the first, and %v at most", rank, late, slack-answer)
			}
		}
	}
}

// Where somebody has taken the expiry off a lock's key nobody knows when it ends. That is no reason
// to ask all the time.
func TestPollOfUnlimitedLock(t *testing.T) {
	f := newFake(t)
	const ttl = time.Minute
	for reply, want := range map[string]time.Duration{
		"*3\r\n:1\r\n:-1\r\n:0\r\n": ttl,
		"*3\r\n:1\r\n:0\r\n:0\r\n":  time.Millisecond,
		"*3\r\n:1\r\n:70\r\n:0\r\n": 70 * time.Millisecond,
	} {
		f.answers(reply)
		l := newLock(t, f.driver(t, nil), ttl)
		_, err := l.Acquire(t.Context())
		var held *driver.HeldError
		if !errors.As(err, &held) || held.AskWithin != want {
			t.Errorf("%q: Acquire = %v, want HeldError, to ask again in %v", reply, err, want)
		}
	}
}

// A message that a lease has begun which ends soon may overtake the reply from before it, which
// knows of another one that ends later. Who went by the latter would ask when its place is renewed,
// a third of its TTL later.
func TestEarlierReplyDoesNotPutOffRecheck(t *testing.T) {
	const soon, late = time.Minute, 10 * time.Minute
	for _, c := range []struct {
		notified, left time.Duration
		before         bool
		want           time.Duration
	}{
		{soon, late, true, soon},
		{late, soon, true, soon},
		{soon, late, false, late},
		{late, soon, false, soon},
	} {
		if got := redisbackend.RecheckOf(c.notified, c.left, c.before); got > c.want+time.Second || got < c.want-30*time.Second {
			t.Errorf("notified to ask in %v, with a reply that says %v to a request from before that: %v: asks in %v, want %v",
				c.notified, c.left, c.before, got, c.want)
		}
	}
}
