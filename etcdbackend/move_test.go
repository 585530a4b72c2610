package etcdbackend_test

import (
	"slices"
	"testing"
	"time"

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
