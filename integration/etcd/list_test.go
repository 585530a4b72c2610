//go:build unix

package etcd

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// The locks are keys of one etcd lease, put by hand: the acquisitions of 10,000 by one Locker may
// come to a stop on this cluster (docs/capacity.md).
func TestList(t *testing.T) {
	s := Cluster(t)
	admin := s.Members[0].admin
	lease, err := admin.Grant(t.Context(), 600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := admin.Revoke(context.WithoutCancel(t.Context()), lease.ID); err != nil {
			t.Error(err)
		}
	}()
	itest.List(t, itest.ListTarget{
		Open:  func() locker.Locker { return s.Open(t) },
		Names: true,
		Hold: func(ctx context.Context, name string) error {
			_, err := admin.Put(ctx, etcdDir(name)+"0123456789abcdef0123456789abcdef", "", clientv3.WithLease(lease.ID))
			return err
		},
		Requests: func() int64 { return s.requests(t) },
		ByHand: func(ctx context.Context) (int, error) {
			r, err := admin.Get(ctx, etcdPrefix, clientv3.WithPrefix())
			if err != nil {
				return 0, err
			}
			return len(r.Kvs), nil
		},
	})
}
