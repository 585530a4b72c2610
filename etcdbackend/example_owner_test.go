package etcdbackend_test

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/etcdbackend"
)

// Data in the same cluster is fenced by the lock itself: the transaction that writes compares the
// key of the lease.
func ExampleOwner() {
	_ = func(ctx context.Context, l locker.Locker, client *clientv3.Client) error {
		return locker.Do(ctx, l, "account/7", func(ctx context.Context, lease locker.Lease) error {
			own, ok := locker.As[etcdbackend.Owner](lease)
			if !ok {
				return errors.New("the locks must be in etcd")
			}
			r, err := client.Txn(ctx).If(own.IsOwner()).Then(clientv3.OpPut("balance/7", "17")).Commit()
			switch {
			case err != nil:
				return err
			case !r.Succeeded:
				return locker.ErrLost // nothing was written
			}
			return nil
		})
	}
}
