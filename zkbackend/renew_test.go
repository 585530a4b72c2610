package zkbackend_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/zkbackend"
)

// Leases with one TTL are renewed together, in as few requests as there can be.
func TestRenewalOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		const n, each = 2*zkbackend.MaxChecks + 100, 3 * time.Second
		var leases []locker.Lease
		for i := range n {
			leases = append(leases, acquire(t, l, fmt.Sprint(i), locker.WithTTL(each)))
		}
		eventually(t, "all are watched", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			watched := 0
			for c := range s.conns {
				watched += len(c.watches)
			}
			return watched == n
		})
		s.asked()
		before := leases[0].Deadline()
		eventually(t, "all are renewed twice", func() bool {
			return !slices.ContainsFunc(leases, func(l locker.Lease) bool { return l.Deadline().Sub(before) < each*4/5 })
		})
		multis := 0
		for _, op := range s.asked() {
			if op == "multi" {
				multis++
			}
		}
		if multis < 6 || multis > 15 {
			t.Errorf("%d leases were renewed in about %d requests, want 3 for all of them each time", n, multis)
		}
		for _, lease := range leases {
			if err := lease.Err(); err != nil {
				t.Fatalf("Err = %v, want nil", err)
			}
		}
	})
}

// Nodes that are missing are found by a renewal where no watch tells, and cost the others nothing.
func TestRenewalFindsWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		var leases []locker.Lease
		for i := range 10 {
			leases = append(leases, acquire(t, l, fmt.Sprint(i), locker.WithoutRenewal()))
		}
		s.mu.Lock()
		for _, i := range []int{0, 3, 4, 9} {
			dir := fmt.Sprint("/locker/", i)
			s.tree.remove(dir + "/" + s.tree.nodes[dir].children[0]) // without a word
		}
		s.mu.Unlock()
		for i, lease := range leases {
			err := lease.Renew(t.Context())
			if missing := slices.Contains([]int{0, 3, 4, 9}, i); missing != errors.Is(err, locker.ErrLost) || !missing && err != nil {
				t.Errorf("Renew of lease %d = %v", i, err)
			}
		}
	})
}

// A node that may not be read any more costs its own lease, and no other.
func TestRenewalOfWhatMayNotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		leases := make(map[string]locker.Lease)
		for _, name := range []string{"a", "b", "c"} {
			leases[name] = acquire(t, l, name)
		}
		s.mu.Lock()
		s.hidden = "/locker/b/" + s.tree.nodes["/locker/b"].children[0]
		s.mu.Unlock()
		time.Sleep(2 * ttl)
		for name, lease := range leases {
			if err := lease.Err(); errors.Is(err, locker.ErrLost) != (name == "b") || name == "b" && !contains(err, "permission") {
				t.Errorf("Err of %q after two TTLs = %v; that of b may not be read, and wants ErrLost and the reason", name, err)
			}
		}
		s.mu.Lock()
		s.hidden = ""
		s.mu.Unlock()
	})
}

// A renewal proves nothing by itself: what proves a lease is a write after a sign of life that is
// old enough.
func TestReadsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		lease := acquire(t, l, "a", locker.WithoutRenewal())
		for range 5 {
			time.Sleep(ttl / 4) // time is what this is about
			if err := lease.Renew(t.Context()); err != nil {
				t.Fatalf("Renew = %v", err)
			}
			if d := time.Until(lease.Deadline()); d < ttl*3/4 {
				t.Errorf("after Renew the deadline is %v away, and the TTL is %v", d, ttl)
			}
		}

		// Without reads there is no proof, and the deadline stays where it can be trusted.
		s.scripts(func(r request) verdict {
			if r.op == "exists" || r.op == "get" {
				return refuse // which is an answer, and so a sign of life
			}
			return serve
		})
		time.Sleep(ttl / 4)
		if err := lease.Renew(t.Context()); err != nil {
			t.Fatalf("Renew = %v", err)
		}
		if d := time.Until(lease.Deadline()); d < ttl*3/4 {
			t.Errorf("after Renew the deadline is %v away, and the TTL is %v", d, ttl)
		}
		release(t, lease)
	})
}
