package zkbackend_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/zkbackend"
)

// queue lets some Lockers queue after a holder, one after the other.
func queue(t *testing.T, s *server, name string, n int) (holder locker.Lease, waiters []*waiter) {
	t.Helper()
	holder = acquire(t, open(t, s), name)
	for i := range n {
		waiters = append(waiters, wait(t, open(t, s), name))
		s.nodesAre(t, name, i+2)
	}
	return holder, waiters
}

func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		lease, waiters := queue(t, s, "a", 5)
		for i, w := range waiters {
			release(t, lease)
			before := lease.Token()
			lease = w.granted(t)
			if lease.Token() <= before {
				t.Errorf("token %v after %v", lease.Token(), before)
			}
			for _, later := range waiters[i+1:] {
				later.pending(t)
			}
		}
		release(t, lease)
	})
}

// Watches that nobody needs any more must not pile up, neither here nor on the server.
func TestWaitersThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		holder := acquire(t, open(t, s), "a")
		other := open(t, s)
		gets := 0
		for range 20 {
			w := wait(t, other, "a")
			s.nodesAre(t, "a", 2)
			eventually(t, "it looks at the queue", func() bool { return strings.Contains(fmt.Sprint(s.asked()), "children") })
			w.cancel()
			<-w.done
			s.nodesAre(t, "a", 1)
		}
		for _, op := range s.asked() {
			if op == "get" {
				gets++
			}
		}
		if gets > 3 {
			t.Errorf("%d watches were set on one node by one session", gets)
		}
		w := wait(t, other, "a")
		s.nodesAre(t, "a", 2)
		release(t, holder)
		release(t, w.granted(t))
	})
}

// Where the sequence numbers of a lock's node have come to their end, the order is the one of the
// czxids.
func TestSequenceThatOverflows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		release(t, acquire(t, l, "a"))
		s.mu.Lock()
		s.tree.nodes["/locker/a"].next = 1<<31 - 2
		s.mu.Unlock()
		lease, waiters := queue(t, s, "a", 4) // the numbers go on below zero
		for i, w := range waiters {
			release(t, lease)
			lease = w.granted(t)
			for _, later := range waiters[i+1:] {
				later.pending(t)
			}
		}
		release(t, lease)
	})
}

// A thousand who wait: each release costs as much as with one, and wakes one. They are of one
// session here, as a thousand connections are more than a test needs.
func TestThousandWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters, releases = 1000, 20
		s := newServer(t)
		d, err := zkbackend.NewDriver(t.Context(), []string{s.addr}, zkbackend.WithDialer(s.dial), zkbackend.WithTick(tick), zkbackend.WithDefaultTTL(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		granted := make(chan driver.Lock, waiters)
		for i := range waiters + 1 {
			l, err := d.Lock(locker.Request{Name: "a", TTL: time.Minute}, func(error) {})
			if err != nil {
				t.Fatal(err)
			}
			switch _, err := l.Acquire(ctx); {
			case i == 0 && err == nil:
				granted <- l
			case i > 0 && errors.Is(err, locker.ErrHeld):
				all.Go(func() {
					if _, err := l.Acquire(ctx); err == nil {
						granted <- l
					}
				})
			default:
				t.Fatalf("Acquire %d = %v", i, err)
			}
		}
		watches := func() (n int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for c := range s.conns {
				n += len(c.watches)
			}
			return n
		}
		eventually(t, "all wait, and all nodes are watched", func() bool { return watches() == waiters+1 })
		s.asked()
		for range releases {
			if err := (<-granted).Release(ctx); err != nil {
				t.Fatal(err)
			}
		}
		last := <-granted
		counts := make(map[string]int)
		for _, op := range s.asked() {
			counts[op]++
		}
		if counts["delete"] != releases || counts["children"] != releases-1 || counts["get"] > 0 || len(counts) != 2 {
			t.Errorf("%d releases asked for %v, want a delete each, and a list each but for the first", releases, counts)
		}
		_ = last.Release(ctx)
	})
}
