package etcdbackend_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/etcdbackend"
)

// An etcd lease whose revocation is on its way takes no key: it is moved to the next one.
func TestNoMoveToARevokedLease(t *testing.T) {
	revoke := make(chan struct{})
	s := cluster{onRevoke: func() { <-revoke }}
	d := s.start(t)
	l, _ := acquire(t, d, "n", 10*time.Second)
	before := s.leaseOf(etcdbackend.KeyOf(l))
	left, err := etcdbackend.RenewOnRevoked(t.Context(), l)
	if !left || err != nil || s.leaseOf(etcdbackend.KeyOf(l)) != before {
		t.Errorf("left for the next try: %v, with the error %v, and the key was moved: %v", left, err, s.leaseOf(etcdbackend.KeyOf(l)) != before)
	}
	if errs := renew(t, d, l); errs[0] != nil {
		t.Errorf("Renew = %v", errs[0])
	}
	close(revoke)
}

// Locks are released while their keys are moved with others. All others are moved by the same renewal.
func TestMoveWhileOthersAreReleased(t *testing.T) {
	const ttl, all, released = 10 * time.Second, 20, 6
	var s cluster
	d := s.start(t)
	var locks []driver.Lock
	for i := range all {
		l, _ := acquire(t, d, fmt.Sprint(i), ttl)
		locks = append(locks, l)
	}
	s.elect()
	var next atomic.Int32
	s.onTxn = func(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
		if i := next.Load(); i < released && r.Success[0].GetRequestPut().GetIgnoreValue() { // a move
			s.delete(etcdbackend.KeyOf(locks[i]))
			next.Add(1)
		}
		return s.txn(r)
	}
	began := driver.Stamp()
	reports := make([]int, all)
	d.Renew(t.Context(), locks, func(i int, base driver.Instant, err error) {
		reports[i]++
		wasReleased := i < released
		if errors.Is(err, locker.ErrLost) != wasReleased || !wasReleased && (err != nil || base < began || base > driver.Now()) {
			t.Errorf("Renew of lock %d = %v, %v", i, base, err)
		}
	})
	if slices.ContainsFunc(reports, func(n int) bool { return n != 1 }) {
		t.Errorf("the locks were reported %v times, want once each", reports)
	}
}

// Two moves of a key overlap, and the answer to the first comes last. The key is attached to the
// etcd lease of the second.
func TestStaleMove(t *testing.T) {
	for _, c := range []struct {
		late bool
		want []string
	}{
		{false, []string{"second"}},
		{true, []string{"old", "first", "second"}}, // a put may come that is late
	} {
		kept, on := etcdbackend.Overlap(c.late)
		if !slices.Equal(kept, c.want) {
			t.Errorf("late %v: the etcd leases %q are kept, want %q", c.late, kept, c.want)
		}
		if !c.late && on != "second" {
			t.Errorf("the key is assumed to be attached to the %s one", on)
		}
	}
}
