//go:build unix

package etcd

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/etcdbackend"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/fence/fenceetcd"
)

// setWriter is a way to write the set back.
type setWriter struct {
	name  string
	loses bool // what others have added

	// begin comes before the read, write with it. Their error matches errFenced when the holder is
	// stale.
	begin func(ctx context.Context, lease locker.Lease, mark fenceetcd.Mark) error
	write func(ctx context.Context, client *clientv3.Client, lease locker.Lease, mark fenceetcd.Mark, put clientv3.Op) error
}

var errFenced = errors.New("the write was refused: the holder is stale")

var setWriters = []setWriter{
	{
		name: "unfenced", loses: true,
		begin: func(context.Context, locker.Lease, fenceetcd.Mark) error { return nil },
		write: func(ctx context.Context, client *clientv3.Client, _ locker.Lease, _ fenceetcd.Mark, put clientv3.Op) error {
			_, err := client.Do(ctx, put)
			return err
		},
	},
	{
		name:  "is-owner",
		begin: func(context.Context, locker.Lease, fenceetcd.Mark) error { return nil },
		write: func(ctx context.Context, client *clientv3.Client, lease locker.Lease, _ fenceetcd.Mark, put clientv3.Op) error {
			owner, ok := locker.As[etcdbackend.Owner](lease)
			if !ok {
				return errors.New("the lease has no Owner")
			}
			r, err := client.Txn(ctx).If(owner.IsOwner()).Then(put).Commit()
			if err == nil && !r.Succeeded {
				err = errFenced
			}
			return err
		},
	},
	{
		name: "claimed-token",
		begin: func(ctx context.Context, lease locker.Lease, mark fenceetcd.Mark) error {
			return stale(mark.Claim(ctx, lease.Token()))
		},
		write: func(ctx context.Context, _ *clientv3.Client, lease locker.Lease, mark fenceetcd.Mark, put clientv3.Op) error {
			_, err := mark.Commit(ctx, lease.Token(), nil, put)
			return stale(err)
		},
	},
}

func stale(err error) error {
	if errors.Is(err, fence.ErrStale) {
		return fmt.Errorf("%w: %w", errFenced, err)
	}
	return err
}
