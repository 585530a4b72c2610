package main

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// etcdPlanted are locks on etcd with a mistake each, and one without.
var etcdPlanted = []library{
	plantOnEtcd(noMistake),
	plantOnEtcd(sendingIsProof),
}

func plantOnEtcd(m *mistake) library {
	return plant(m, func(_ context.Context, s site) (func(name string) attempt, func(), error) {
		c, err := etcdClient(s)
		if err != nil {
			return nil, nil, err
		}
		return func(name string) attempt { return &etcdAttempt{c: c, key: "planted/" + name, ttl: s.ttl} }, func() { _ = c.Close() }, nil
	})
}

// etcdAttempt creates a key with a lease of etcd, if it doesn't exist. The lease is the owner.
type etcdAttempt struct {
	c     *clientv3.Client
	key   string
	ttl   time.Duration
	lease clientv3.LeaseID
}

// take makes a new lease for each try, because its TTL is counted from the time at which it was made.
func (a *etcdAttempt) take(ctx context.Context) (token int64, err error) {
	granted, err := a.c.Grant(ctx, int64(a.ttl/time.Second))
	if err != nil {
		return 0, err
	}
	a.lease = granted.ID
	created, err := a.c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(a.key), "=", 0)).
		Then(clientv3.OpPut(a.key, "", clientv3.WithLease(a.lease))).Commit()
	if err != nil {
		return 0, err
	}
	if !created.Succeeded {
		return 0, a.free(ctx)
	}
	return created.Header.Revision, nil
}

func (a *etcdAttempt) extend(ctx context.Context) (held bool, err error) {
	_, err = a.c.KeepAliveOnce(ctx, a.lease)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (a *etcdAttempt) free(ctx context.Context) error {
	_, err := a.c.Revoke(ctx, a.lease)
	return err
}
