package etcdbackend_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/etcdbackend"
)

// queue puts the keys of n others, oldest first.
func (c *cluster) queue(dir string, n int) (keys []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range n {
		c.revision++
		key := fmt.Sprintf("%sother%05d", dir, i)
		c.keys[key] = &mvccpb.KeyValue{Key: []byte(key), CreateRevision: c.revision, ModRevision: c.revision}
		keys = append(keys, key)
	}
	return keys
}

func (c *cluster) visits() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.visited
}

// waits returns a lock that has a place in the queue, and the outcome of its wait.
func waits(t *testing.T, d driver.Driver) (driver.Lock, <-chan error) {
	t.Helper()
	l := prepare(t, d, "n", time.Minute)
	if _, err := l.Acquire(t.Context()); !errors.Is(err, driver.ErrQueued) {
		t.Fatalf("Acquire = %v, want a place in the queue", err)
	}
	won := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		_, err := l.Acquire(ctx)
		won <- err
	}()
	return l, won
}

// To renew a place in the queue costs the cluster the same, however many others wait. This one has
// no watches, so each turn is found by a renewal.
func TestRenewalOfAPlace(t *testing.T) {
	for _, others := range []int{1, 8, 9, 100, 2000} {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			var s cluster
			d := s.start(t)
			keys := s.queue(etcdbackend.DirOf("locker/", "n", 0), others)
			l, won := waits(t, d)
			for range 3 {
				before := s.visits()
				if err := renew(t, d, l)[0]; err != nil {
					t.Fatalf("Renew = %v", err)
				}
				if n := s.visits() - before; n > 2 {
					t.Errorf("a renewal has read %d keys, of a queue of %d", n, others)
				}
			}
			last := keys[len(keys)-1]
			for _, key := range keys[:len(keys)-1] {
				s.delete(key)
			}
			for range 3 { // all but the last one are gone, so it is still not its turn
				if err := renew(t, d, l)[0]; err != nil {
					t.Fatalf("Renew = %v", err)
				}
			}
			select {
			case err := <-won:
				t.Fatalf("Acquire = %v while there is one before it", err)
			case <-time.After(50 * time.Millisecond):
			}
			s.delete(last)
			if err := renew(t, d, l)[0]; err != nil {
				t.Fatalf("Renew = %v", err)
			}
			select {
			case err := <-won:
				if err != nil {
					t.Errorf("Acquire = %v", err)
				}
			case <-time.After(5 * time.Second):
				t.Error("one renewal has not found that it is its turn")
			}
		})
	}
}

// Without a majority a waiter goes on waiting, and keeps its place: no
// etcd lease ends meanwhile.
func TestWaitWithoutAMajority(t *testing.T) {
	var s cluster
	var down atomic.Bool
	s.onTxn = func(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
		if down.Load() {
			return nil, rpctypes.ErrGRPCNoLeader
		}
		return s.txn(r)
	}
	d := s.start(t)
	keys := s.queue(etcdbackend.DirOf("locker/", "n", 0), 1)
	l, won := waits(t, d)
	down.Store(true)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		d.Renew(ctx, []driver.Lock{l}, func(_ int, _ driver.Instant, err error) {
			if err == nil || errors.Is(err, locker.ErrLost) {
				t.Errorf("Renew = %v, want an error that is no loss", err)
			}
		})
		cancel()
	}
	select {
	case err := <-won:
		t.Fatalf("the wait has ended: %v", err)
	default:
	}
	down.Store(false)
	s.delete(keys[0])
	if err := renew(t, d, l)[0]; err != nil {
		t.Fatalf("Renew = %v", err)
	}
	select {
	case err := <-won:
		if err != nil {
			t.Errorf("Acquire = %v, want a grant at the place that it had", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it is not granted")
	}
}
