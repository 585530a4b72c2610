package etcdbackend_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/etcdbackend"
)

// A waiter is on its way to take its turn while the watch of its name reports which keys are gone.
// It doesn't get the lock if its own key is among them, and never assumes that its key existed for
// longer than it did.
func TestDeletedTogether(t *testing.T) {
	type del = etcdbackend.Deletion
	for _, c := range []struct {
		why       string
		deletions []del
		lost      bool
		lastSeen  int64
	}{
		{"the key before it", []del{{"a", 9}}, false, 9},
		{"one behind it, when its own may be the oldest, and marked", []del{{"z", 9}}, false, 5},
		{"one behind it, after the key before it", []del{{"a", 8}, {"z", 9}}, false, 8},
		{"both in one revision", []del{{"a", 9}, {"me", 9}}, true, 9},
		{"both in one revision, the own one first", []del{{"me", 9}, {"a", 9}}, true, 5},
		{"the own one, and then the one before it", []del{{"me", 8}, {"a", 9}}, true, 5},
		{"the one before it, and then the own one", []del{{"a", 8}, {"me", 9}}, true, 8},
	} {
		lastSeen, lost, err := etcdbackend.GrantedAfter(5, c.deletions...)
		if c.lost != errors.Is(err, locker.ErrLost) || c.lost != errors.Is(lost, locker.ErrLost) {
			t.Errorf("%s: it is granted with %v, and reported as lost with %v, want lost %v", c.why, err, lost, c.lost)
		}
		if lastSeen != c.lastSeen {
			t.Errorf("%s: the key was last seen at %d, want %d", c.why, lastSeen, c.lastSeen)
		}
	}
}

// The key of a waiter is deleted while the watch of its name is interrupted, and the key before it goes
// just after the watch has begun again. The waiter looks before it takes its turn.
func TestDeletedUnwatched(t *testing.T) {
	var s cluster
	d := s.start(t)
	first, _ := acquire(t, d, "n", 10*time.Second)
	l := prepare(t, d, "n", 10*time.Second)
	if _, err := l.Acquire(t.Context()); !errors.Is(err, driver.ErrQueued) {
		t.Fatalf("Acquire = %v, want a place in the queue", err)
	}
	s.delete(etcdbackend.KeyOf(l))
	s.delete(etcdbackend.KeyOf(first))
	etcdbackend.Reported(l, etcdbackend.KeyOf(first), s.latest())
	if g, err := l.Acquire(t.Context()); !errors.Is(err, locker.ErrLost) {
		t.Errorf("Acquire = %+v, %v, want ErrLost: the key is gone", g, err)
	}
}

// The key of a lease that nobody renews is deleted while its watch is interrupted, and the first look at
// it afterwards fails. The holder gets to know it all the same.
func TestDeletedWhileTheWatchIsInterrupted(t *testing.T) {
	var s cluster
	d := s.start(t)
	lost := make(chan error, 1)
	l, err := d.Lock(locker.Request{Name: "n", TTL: 10 * time.Second, NoRenewal: true}, func(err error) { lost <- err })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Acquire(t.Context()); err != nil {
		t.Fatalf("Acquire = %v", err)
	}
	var failed atomic.Bool
	s.onTxn = func(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
		if len(r.Compare) > 0 && failed.CompareAndSwap(false, true) {
			return nil, rpctypes.ErrGRPCPermissionDenied
		}
		return s.txn(r)
	}
	s.delete(etcdbackend.KeyOf(l))
	etcdbackend.Recheck(d, l)
	select {
	case err := <-lost:
		if !errors.Is(err, locker.ErrLost) || !failed.Load() {
			t.Errorf("it is lost with %v, want ErrLost", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it is not lost")
	}
}

// Streams break again and again while transactions are refused: the key of a lease is read no more often
// than after one break.
func TestRechecksDoNotMultiply(t *testing.T) {
	const streams, longer = 10, 1200 * time.Millisecond
	var s cluster
	d := s.start(t)
	lost := make(chan error, streams)
	l, err := d.Lock(locker.Request{Name: "n", TTL: 10 * time.Second, NoRenewal: true}, func(err error) { lost <- err })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Acquire(t.Context()); err != nil {
		t.Fatalf("Acquire = %v", err)
	}
	var reads atomic.Int64
	var refuse atomic.Bool
	refuse.Store(true)
	s.onTxn = func(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
		if len(r.Compare) > 0 && refuse.Load() {
			reads.Add(1)
			return nil, rpctypes.ErrGRPCPermissionDenied
		}
		return s.txn(r)
	}
	s.delete(etcdbackend.KeyOf(l))
	began := time.Now()
	for range streams {
		etcdbackend.Recheck(d, l)
	}
	time.Sleep(longer)
	if n, most := reads.Load(), int64(time.Since(began)/(500*time.Millisecond))+1; n > most || n == 0 {
		t.Errorf("the key is read %d times in %v, want %d times at most", n, longer, most)
	}
	refuse.Store(false)
	select {
	case err := <-lost:
		if !errors.Is(err, locker.ErrLost) {
			t.Errorf("it is lost with %v, want ErrLost", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("the lease is not lost")
	}
}
