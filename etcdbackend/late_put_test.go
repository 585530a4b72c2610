package etcdbackend_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/etcdbackend"
)

// A copy of the put is late, and is executed after the key was deleted by hand: so the key exists a
// second time, with another create revision. Release removes it all the same: it is this lock's.
func TestLatePutAfterADeletion(t *testing.T) {
	for _, c := range []struct {
		why      string
		reported bool // a watch reports the deletion before the put is answered
	}{
		{"the deletion isn't known", false},
		{"the deletion is reported before the put is answered", true},
	} {
		t.Run(c.why, func(t *testing.T) {
			var late atomic.Pointer[pb.TxnRequest]
			var s cluster
			d := s.start(t)
			l := prepare(t, d, "n", 2*time.Second)
			s.onTxn = func(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
				if late.CompareAndSwap(nil, r) {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				resp, err := s.txn(r)
				if c.reported && len(s.keyNames()) > 0 {
					s.delete(putKey(late.Load()))
					etcdbackend.Gone(l)
				}
				return resp, err
			}
			if _, err := l.Acquire(t.Context()); c.reported != errors.Is(err, locker.ErrLost) {
				t.Fatalf("Acquire = %v", err)
			}
			key := etcdbackend.KeyOf(l)
			s.delete(key)
			c.reported = false
			if r, err := s.txn(late.Load()); err != nil || !r.Succeeded {
				t.Fatalf("the late put: %v, %v, want it to be executed", r, err)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Fatalf("Release = %v", err)
			}
			if s.leaseOf(key) != 0 {
				t.Errorf("after Release these keys exist: %q", s.keyNames())
			}
			if r, err := s.txn(late.Load()); err != nil || r.Succeeded {
				t.Errorf("a put that is later still: %v, %v, want it to be stopped", r, err)
			}
		})
	}
}
