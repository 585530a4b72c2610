package etcdbackend

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

var _ driver.TokenReader = (*etcdDriver)(nil)

// CurrentToken reads the oldest of the name's keys, which is the holder's.
func (d *etcdDriver) CurrentToken(ctx context.Context, name string) (locker.Token, error) {
	dir := dirOf(d.prefix, name)
	oldest := clientv3.OpGet(dir, clientv3.WithRange(endOf(dir)), clientv3.WithKeysOnly(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(1))
	r, err := d.server.txn(ctx, maxAttempt, nil, []clientv3.Op{oldest}, nil)
	if err != nil {
		return 0, err
	}
	kvs := r.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return 0, nil
	}
	return locker.Token(kvs[0].CreateRevision), nil
}
