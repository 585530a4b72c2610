package fenceetcd_test

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence/fenceetcd"
)

// A critical section whose data is in etcd. The marks are apart from the data, which is often
// deleted by its prefix.
func ExampleMark() {
	_ = func(ctx context.Context, l locker.Locker, client *clientv3.Client) error {
		mark := fenceetcd.Mark{KV: client, Key: "fences/invoices/42"}
		return locker.Do(ctx, l, "invoices/42", func(ctx context.Context, lease locker.Lease) error {
			if err := mark.Claim(ctx, lease.Token()); err != nil {
				return err // matches fence.ErrStale: a newer holder was here
			}
			got, err := client.Get(ctx, "invoices/42/status")
			if err != nil || (got.Count > 0 && string(got.Kvs[0].Value) == "paid") {
				return err
			}
			_, err = mark.Commit(ctx, lease.Token(), nil, clientv3.OpPut("invoices/42/status", "paid"))
			return err
		})
	}
}

// A transaction of the caller's own includes the comparison.
func ExampleMark_Held() {
	_ = func(ctx context.Context, client *clientv3.Client, mark fenceetcd.Mark, token locker.Token) (written bool, err error) {
		r, err := client.Txn(ctx).If(mark.Held(token)).Then(clientv3.OpPut("invoices/42/status", "paid")).Commit()
		if err != nil {
			return false, err
		}
		return r.Succeeded, nil
	}
}
