//go:build unix

package redlock

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/internal/redlockmodel"
)

// party is one that wants the lock of a server, and listens. Its number is its ticket as well.
type party struct {
	*server
	n   int
	sub *redis.PubSub
}

func (s *server) party(n int) *party {
	s.t.Helper()
	p := &party{server: s, n: n}
	client := redis.NewClient(s.admin.Options())
	p.sub = client.Subscribe(s.t.Context(), p.channel())
	s.t.Cleanup(func() { _ = p.sub.Close(); _ = client.Close() })
	if _, err := p.sub.Receive(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	return p
}

func (p *party) owner() string   { return redlockOwner(redlockmodel.Owner(p.n)) }
func (p *party) channel() string { return fmt.Sprintf("%s:free:%x", p.lock, 1000+p.n) } // of its Locker
func (p *party) waiters() string { return p.lock + ":waiters" }

// dies ends its subscription.
func (p *party) dies() {
	p.t.Helper()
	_ = p.sub.Close()
	step.Eventually(p.t, itest.ShortWait, func() error {
		if n := p.admin.PubSubNumSub(p.t.Context(), p.channel()).Val()[p.channel()]; n != 0 {
			return fmt.Errorf("%d listen for party %d", n, p.n)
		}
		return nil
	})
}

// asks calls a script with a ticket, and checks the answer.
func (p *party) asks(script string, token int64, ttl time.Duration, want string) {
	p.t.Helper()
	args := []any{waitsShort.Milliseconds(), p.channel(), 0, p.owner(), token, ttl.Milliseconds(), p.n, ""}
	answer, err := p.admin.Eval(p.t.Context(), p.scripts[script], []string{p.memory(), p.lock}, args...).Slice()
	if err != nil {
		p.t.Fatal(err)
	}
	got := fmt.Sprint(answer...)
	var left, rank int
	if _, err := fmt.Sscanf(got, "held %d %d", &left, &rank); err == nil {
		got = fmt.Sprintf("held at rank %d", rank)
	}
	if got != want {
		p.t.Errorf("%s of party %d = %q, want %q", script, p.n, got, want)
	}
}

func (p *party) acquires(ttl time.Duration) {
	p.t.Helper()
	p.asks("acquire", time.Now().UnixMicro(), ttl, "raised")
}

func (p *party) waits(ttl time.Duration, rank int) {
	p.t.Helper()
	p.asks("acquire", time.Now().UnixMicro(), ttl, fmt.Sprintf("held at rank %d", rank))
}

// heard returns what the party has heard until now, without the key of the lock.
func (p *party) heard() (texts []string) {
	p.t.Helper()
	p.admin.Publish(p.t.Context(), p.channel(), "that is all")
	for {
		m, err := p.sub.ReceiveTimeout(p.t.Context(), itest.ShortWait)
		if err != nil {
			p.t.Fatal(err)
		}
		switch m := m.(type) {
		case *redis.Message:
			if m.Payload == "that is all" {
				return texts
			}
			texts = append(texts, m.Payload[len(p.lock):])
		}
	}
}

// When a lease begins, four of those that wait are told when it ends: the first four that listen. None is
// told to ask more rarely than its place requires. The dead lose their places.
func TestRedlockNextWaitersAreTold(t *testing.T) {
	for _, c := range []struct {
		ttl  time.Duration
		told []string
	}{
		{200 * time.Millisecond, []string{" 200", " 250", " 300", " 350"}},
		{2500 * time.Millisecond, []string{" 1000", " 2000", " 2600", " 2650"}},
	} {
		s := newServer(t)
		first, second := s.party(1), s.party(2)
		first.acquires(itest.LongTTL)
		second.waits(itest.LongTTL, 0)
		var others []*party
		for n := 3; n <= 9; n++ {
			p := s.party(n)
			p.waits(itest.LongTTL, n-2)
			others = append(others, p)
		}
		for _, p := range others[1:3] {
			p.dies()
		}
		others = slices.Delete(others, 1, 3)
		for _, p := range others {
			p.heard()
		}
		second.heard()
		first.asks("release", 1, itest.LongTTL, "released")
		if got := second.heard(); !slices.Equal(got, []string{""}) {
			t.Errorf("after the release the first has heard %q, want that the lock is free", got)
		}
		second.acquires(c.ttl)
		for i, p := range others {
			var want []string
			if i < len(c.told) {
				want = c.told[i : i+1]
			}
			if got := p.heard(); !slices.Equal(got, want) {
				t.Errorf("when a lease of %v begins, waiter %d has heard %q, want %q", c.ttl, i, got, want)
			}
		}
		if n := s.admin.ZCard(t.Context(), second.waiters()).Val(); n != int64(len(others)) {
			t.Errorf("%d wait, want %d: the dead have lost their places", n, len(others))
		}
	}
}

// The dead lose their places while somebody holds the lock, when the next one asks.
func TestRedlockDeadWaitersAreRemoved(t *testing.T) {
	s := newServer(t)
	s.party(1).acquires(itest.LongTTL)
	first := s.party(2)
	first.waits(itest.LongTTL, 0)
	for n := range 20 { // one process that begins again and again
		p := s.party(3 + n)
		p.waits(itest.LongTTL, 1)
		p.dies()
	}
	last := s.party(40)
	last.waits(itest.LongTTL, 1)
	if n := s.admin.ZCard(t.Context(), last.waiters()).Val(); n != 2 {
		t.Errorf("%d wait, want 2: the others are dead", n)
	}
	first.dies()
	last.waits(itest.LongTTL, 0)
}

// The servers know a waiter until it asks again, also if its TTL is shorter.
func TestRedlockWaiterWithAShortTTLStaysKnown(t *testing.T) {
	s := newServer(t)
	s.party(1).acquires(itest.LongTTL)
	const short = 100 * time.Millisecond
	for rank := range 4 {
		p := s.party(2 + rank)
		p.waits(short, rank)
		asksWithin := time.Duration(rank+1) * 1250 * time.Millisecond
		if left := s.admin.PTTL(t.Context(), p.waiters()).Val(); left < asksWithin+time.Second {
			t.Errorf("the waiters are known for %v, and the one at rank %d asks within %v", left, rank, asksWithin)
		}
	}
}
