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
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// Of the two requests of a renewal one is refused, which is reported at once. The other is answered
// by a new leader, and its locks are moved.
func TestRefusedPartOfARenewal(t *testing.T) {
	const ttl, most = 10 * time.Second, 128
	var s cluster
	d := s.start(t)
	var locks []driver.Lock
	for i := range most + 1 {
		l, _ := acquire(t, d, fmt.Sprint(i), ttl)
		locks = append(locks, l)
	}
	var refused atomic.Int32
	s.onTxn = func(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
		switch {
		case len(r.Compare) == 1 || len(r.Compare) == 2: // one lock's
			refused.Add(1)
			return nil, rpctypes.ErrGRPCPermissionDenied
		case len(r.Compare) == most && s.newestTerm() == 5 && r.Success[0].GetRequestPut() == nil:
			s.elect()
		}
		return s.txn(r)
	}
	errs := renew(t, d, locks...)
	if n := refused.Load(); n != 1 {
		t.Errorf("it was asked %d times for what is refused, want once", n)
	}
	kept := len(slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err != nil }))
	if kept != most || !errors.Is(errs[most], rpctypes.ErrPermissionDenied) {
		t.Errorf("%d locks were renewed, and the last one with %v, want %d, and that it is refused", kept, errs[most], most)
	}
}

// The members raise a short TTL, each by its own settings. A holder counts on the TTL that it was
// granted, so no later etcd lease is shorter; and if one were, no renewal would rest on it.
func TestNoShorterLease(t *testing.T) {
	var s cluster
	s.ttlOf = func(asked int64) int64 { return max(asked, 10) }
	d := s.start(t)
	l, g := acquire(t, d, "n", 2*time.Second)
	if g.TTL != 10*time.Second {
		t.Fatalf("granted for %v", g.TTL)
	}
	s.elect()
	s.ttlOf = nil
	if errs := renew(t, d, l); errs[0] != nil {
		t.Errorf("Renew with a new leader = %v", errs[0])
	}
	if last := s.asked[len(s.asked)-1]; last != 10 {
		t.Errorf("the next etcd lease was asked for %d s, want 10", last)
	}
	s.elect()
	s.ttlOf = func(int64) int64 { return 5 }
	if errs := renew(t, d, l); errs[0] == nil || errors.Is(errs[0], locker.ErrLost) {
		t.Errorf("Renew with an etcd lease for 5 s = %v, want an error, and no loss", errs[0])
	}
	s.ttlOf = nil
	if errs := renew(t, d, l); errs[0] != nil {
		t.Errorf("Renew after that = %v", errs[0])
	}
}
