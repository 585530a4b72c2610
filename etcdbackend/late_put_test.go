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

// A copy of the put is late, and is carried out after the key was deleted by somebody else: so the key stands a second time,
// with another create revision. Release takes it away all the same; it is nobody else's.
func TestLatePutAfterADeletion(t *testing.T) {
	for _, c := range []struct {
		why  string
		told bool // a watch tells of the deletion before the put is answered
	}{
		{"the deletion isn't known", false},
		{"the deletion is told before the put is answered", true},
	} {
		t.Run(c.why, func(t *testing.T) {
			var late atomic.Pointer[pb.TxnRequest]
			var s cluster
			d := s.start(t)
			l := prepare(t, d, "n", 2*time.Second)
			key := etcdbackend.KeyOf(l)
			s.onTxn = func(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
				if late.CompareAndSwap(nil, r) {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				resp, err := s.txn(r)
				if c.told && len(s.stands()) > 0 {
					s.delete(key)
					etcdbackend.Gone(l)
				}
				return resp, err
			}
			if _, err := l.Acquire(t.Context()); c.told != errors.Is(err, locker.ErrLost) {
				t.Fatalf("Acquire = %v", err)
			}
			s.delete(key)
			c.told = false
			if r, err := s.txn(late.Load()); err != nil || !r.Succeeded {
				t.Fatalf("the late put: %v, %v, want it to be carried out", r, err)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Fatalf("Release = %v", err)
			}
			if s.leaseOf(key) != 0 {
				t.Errorf("after Release these keys stand: %q", s.stands())
			}
			if r, err := s.txn(late.Load()); err != nil || r.Succeeded {
				t.Errorf("a put that is later still: %v, %v, want it to be stopped", r, err)
			}
		})
	}
}
