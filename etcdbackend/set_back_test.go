package etcdbackend_test

import (
	"context"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fencedlock/locker/etcdbackend"
)

// save returns a function that sets the cluster back to what it is now.
func (c *cluster) save() (restore func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	term, revision, leases := c.term, c.revision, maps.Clone(c.leases)
	keys := make(map[string]*mvccpb.KeyValue)
	for key, kv := range c.keys {
		same := *kv
		keys[key] = &same
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.term, c.revision, c.keys, c.leases = term, revision, keys, leases
	}
}

func (c *cluster) has(lease int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leases[lease]
}

// The cluster is set back to what it was before a key was moved, so the key has its earlier mod revision
// again. The lease goes on, and the key is moved to a new etcd lease.
func TestSetBackBeforeAMove(t *testing.T) {
	var s cluster
	d := s.start(t)
	l, _ := acquire(t, d, "n", 10*time.Second)
	key := etcdbackend.KeyOf(l)
	restore := s.save()
	first := s.leaseOf(key)
	s.elect()
	if errs := renew(t, d, l); errs[0] != nil || s.leaseOf(key) == first {
		t.Fatalf("Renew with a new leader = %v, and the key is attached to the same etcd lease: %v", errs[0], s.leaseOf(key) == first)
	}
	for end := time.Now().Add(10 * time.Second); s.has(first); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the first etcd lease is not revoked")
		}
	}
	restore()
	for range 2 {
		if errs := renew(t, d, l); errs[0] != nil {
			t.Errorf("Renew after the cluster was set back = %v", errs[0])
		}
	}
	if s.leaseOf(key) == first {
		t.Error("the key is still attached to the first etcd lease, which nothing extends")
	}
	release(t, l)
	if keys := s.keyNames(); len(keys) > 0 {
		t.Errorf("after Release these keys exist: %q", keys)
	}
}

// The cluster is set back to what it was before a guard key was written again. The etcd lease is left: a put
// that compares the later revision would never be executed.
func TestSetBackBeforeAGuard(t *testing.T) {
	var s cluster
	var silent atomic.Bool
	d := s.start(t)
	s.onTxn = func(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
		if isPut(r) && silent.CompareAndSwap(true, false) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return s.txn(r)
	}
	alive, _ := acquire(t, d, "alive", 2*time.Second)
	guard := func() {
		silent.Store(true)
		l, _ := acquire(t, d, "n", 2*time.Second)
		release(t, l)
	}
	guard()
	restore := s.save()
	guard()
	restore()
	if keys := strings.Join(s.keyNames(), " "); !strings.Contains(keys, "%guard") {
		t.Fatalf("the keys are %s, want a guard key", keys)
	}
	l, _ := acquire(t, d, "n", 2*time.Second)
	if s.leaseOf(etcdbackend.KeyOf(l)) == s.leaseOf(etcdbackend.KeyOf(alive)) {
		t.Error("the key is attached to the etcd lease whose guard key was set back")
	}
}
