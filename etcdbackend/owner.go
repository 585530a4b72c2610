package etcdbackend

import clientv3 "go.etcd.io/etcd/client/v3"

// Owner is what a lease of this backend offers beyond [locker.Lease]: data in the same etcd cluster
// is fenced in the transaction that writes it.
//
//	own, ok := locker.As[etcdbackend.Owner](lease)
//	if !ok {
//		return errors.New("the locks must be in etcd")
//	}
//	r, err := client.Txn(ctx).If(own.IsOwner()).Then(clientv3.OpPut("balance", "17")).Commit()
//	// r.Succeeded is false: the lease is over, and nothing was written
//
// The zero Owner is of no lease.
type Owner struct {
	key      string
	revision int64
}

// IsOwner is a comparison that is true exactly as long as the cluster has the lease. So a
// transaction that compares it writes nothing for a stale holder. (A cluster that was set back, or founded
// again, may give a create revision a second time.) Of the zero Owner it is never true, or etcd refuses it.
func (o Owner) IsOwner() clientv3.Cmp {
	if o.revision <= 0 {
		// A key that doesn't exist has the create revision 0, and no key a smaller one.
		return clientv3.Compare(clientv3.CreateRevision(o.key), "=", -1)
	}
	return clientv3.Compare(clientv3.CreateRevision(o.key), "=", o.revision)
}

// Key is the key of the lease. Its create revision is the lease's token, less the base of a
// [locker.TokenBase]. A later lease of the same Locker may have the same key: to look whether it exists says
// nothing. Compare IsOwner.
func (o Owner) Key() string { return o.key }
