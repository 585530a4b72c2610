package redlockbackend_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/redlockbackend"
)

// Servers whose counters differ grant the lock, but none has its counter below what the client
// proposes: each acquisition needs its second phase. Where many ask at the same time, requests
// join, and a second phase that goes out among first ones is answered as a repeated one: it wins
// nothing, and one that is late makes a lock that nobody knows of.
func TestRaisesOfMany(t *testing.T) {
	const locks, counter = 64, 1_000_000_000_000_000_000
	c := newCluster(t, 3, 10*time.Second)
	for i, s := range c.servers {
		last := counter + 1000*i
		s.does("acquire", late(text(fmt.Sprintf("granted %d %d", last, last+60_000_000))))
		s.does("raise", late(raised))
	}
	var all sync.WaitGroup
	for i := range locks {
		l, err := c.Lock(locker.Request{Name: fmt.Sprint(i), TTL: ttl, NoWait: true}, func(cause error) { t.Errorf("lost: %v", cause) })
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			grant, err := l.Acquire(t.Context())
			if err != nil || grant.Token <= counter {
				t.Errorf("Acquire of lock %d = %+v, %v, want a token above %d", i, grant, err, counter)
			}
		})
	}
	all.Wait()
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	raises := 0
	for i, s := range c.servers {
		raises += s.asked("raise")
		if n := s.asked("acquire"); n != locks {
			t.Errorf("server %d was asked to grant %d locks, want %d", i, n, locks)
		}
		if n := s.asked("raise"); n > locks {
			t.Errorf("server %d was asked to raise %d counters, want %d at most", i, n, locks)
		}
	}
	if raises < 2*locks {
		t.Errorf("%d counters were to be raised, want a majority's for each of %d locks", raises, locks)
	}
}
