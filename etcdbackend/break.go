package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/etcdconn"
)

// An operator who takes a lock away marks the value of the holder's key ([kit.Marked]). The key's etcd
// lease and its create revision stay. The watch of the held key reports the mark, and the next renewal
// finds it, because the key's mod revision is another one. A marked key isn't moved to another etcd
// lease any more.

var _ driver.Breaker = (*etcdDriver)(nil)

// Break reads the oldest key of the name, which is the holder's, and marks or deletes it by a Txn that
// compares what was read. While a key exists no older one can come to exist, so the key is the
// holder's then, too.
func (d *etcdDriver) Break(
	ctx context.Context, name string, token locker.Token, breach locker.Breach,
) (locker.Effect, error) {
	effect, err := d.takeAway(ctx, name, token, breach)
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		err = fmt.Errorf("%w; a permission is missing: %w", locker.ErrNoBreaker, err)
	}
	return effect, err
}

func (d *etcdDriver) takeAway(
	ctx context.Context, name string, token locker.Token, breach locker.Breach,
) (locker.Effect, error) {
	late := false // a request to mark the key has perhaps been executed, without an answer
	for {
		key, err := d.holderOf(ctx, name, breach.Slot)
		if err != nil {
			return locker.Effect{}, err
		}
		if key == nil || locker.Token(key.CreateRevision) != token {
			if late { // the holder has seen the mark, and released the lock
				return locker.Effect{}, nil
			}
			return locker.Effect{}, locker.ErrNotHolder
		}
		if breach.AtOnce {
			return locker.Effect{}, d.deleteHolder(ctx, key)
		}
		done, maybe, err := d.mark(ctx, key, breach)
		if err != nil {
			return locker.Effect{}, err
		}
		if done {
			within, err := d.lastsAtMost(ctx, key)
			return locker.Effect{Within: within}, err
		}
		late = late || maybe
		// Meanwhile the key was moved, marked or deleted.
	}
}

// holderOf returns the oldest key of a name, or of its slot; nil: there is none.
func (d *etcdDriver) holderOf(ctx context.Context, name string, slot int) (*mvccpb.KeyValue, error) {
	dir := dirOf(d.prefix, name, slot)
	r, err := d.read(ctx, clientv3.OpGet(dir, clientv3.WithRange(endOf(dir)),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(1)))
	if err != nil || len(r.keys) == 0 {
		return nil, err
	}
	return r.keys[0], nil
}

// mark reports whether the key is marked. It isn't if somebody has changed it since it was read, which
// may have been a copy of the request (late).
func (d *etcdDriver) mark(ctx context.Context, key *mvccpb.KeyValue, breach locker.Breach) (done, late bool, err error) {
	value, marked := kit.ReadMarked(string(key.Value))
	if marked != nil {
		return true, false, nil
	}
	r, err := d.cluster.Txn(ctx, etcdconn.MaxAttempt,
		[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(string(key.Key)), "=", key.ModRevision)},
		[]clientv3.Op{clientv3.OpPut(string(key.Key), kit.Marked(breach, value), clientv3.WithIgnoreLease())}, nil)
	return err == nil && r.Succeeded, r.Late, err
}

// deleteHolder deletes the key. A Txn that finds it gone may be a copy of the one that has deleted
// it.
func (d *etcdDriver) deleteHolder(ctx context.Context, key *mvccpb.KeyValue) error {
	r, err := d.cluster.Txn(ctx, etcdconn.MaxAttempt,
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(string(key.Key)), "=", key.CreateRevision)},
		[]clientv3.Op{clientv3.OpDelete(string(key.Key))}, nil)
	if err == nil && !r.Succeeded && !r.Late {
		return locker.ErrNotHolder
	}
	return err
}

// lastsAtMost is how long a key that is marked lasts at most, which is as long as its etcd lease if
// nobody refreshes that from now on. A last keepalive may be on its way, so what is left now doesn't
// count. 0: the key has gone; -1: the time isn't known.
//
// The leader answers for an etcd lease without asking the others, so one that has been replaced may not
// know the etcd lease. What the key says is linearizable.
func (d *etcdDriver) lastsAtMost(ctx context.Context, key *mvccpb.KeyValue) (time.Duration, error) {
	if key.Lease == int64(clientv3.NoLease) {
		return -1, nil
	}
	_, granted, found, err := d.cluster.TimeToLive(ctx, etcdconn.MaxAttempt, clientv3.LeaseID(key.Lease))
	if err != nil || found {
		return granted, err
	}
	r, err := d.read(ctx, clientv3.OpGet(string(key.Key)))
	if err != nil || len(r.keys) == 0 || r.keys[0].CreateRevision != key.CreateRevision {
		return 0, err
	}
	return -1, nil
}
