package etcdbackend_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/etcdbackend"
)

// The answer to the request that marks a key is lost, and the holder has released the lock by the time
// at which the next member is asked. That is no ErrNotHolder, which says that nothing has changed.
func TestBreakWhoseAnswerIsLost(t *testing.T) {
	var s cluster
	addrs := []string{s.member(t), s.member(t)}
	d := drive(t, clientv3.Config{Endpoints: addrs})
	l, g := acquire(t, d, "n", 10*time.Second)
	lost := false
	s.onTxn = func(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
		resp, err := s.txn(r)
		if len(r.Success) > 0 && bytes.HasPrefix(r.Success[0].GetRequestPut().GetValue(), []byte("!")) && !lost {
			lost = true
			s.delete(etcdbackend.KeyOf(l))
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return resp, err
	}
	effect, err := d.(driver.Breaker).Break(t.Context(), "n", g.Token, locker.Breach{By: "bob"})
	if effect != (locker.Effect{}) || err != nil || !lost {
		t.Errorf("Break = %+v, %v, want nil: the lock is free", effect, err)
	}
	if _, err := d.(driver.Breaker).Break(t.Context(), "n", g.Token, locker.Breach{By: "bob"}); !errors.Is(err, locker.ErrNotHolder) {
		t.Errorf("Break of a lease that is over = %v, want ErrNotHolder", err)
	}
}
