package etcdbackend

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/etcdconn"
)

// The key of an acquisition is PREFIX NAME / OWNER. The slashes in a name are escaped, and so is
// the character that escapes: so all keys that begin with PREFIX NAME / belong to this very name,
// and no name can be written so that its keys are taken for another name's.
//
// The key of an acquisition of a slot is PREFIX NAME %s SLOT / OWNER. No name is written with "%s".
var (
	escape   = strings.NewReplacer("%", "%25", "/", "%2F").Replace
	unescape = strings.NewReplacer("%25", "%", "%2F", "/").Replace
)

const slotMark = "%s"

// dirOf is what the keys of all acquisitions of a name, or of a slot of it, begin with.
func dirOf(prefix, name string, slot int) string {
	dir := prefix + escape(name)
	if slot != 0 {
		dir += slotMark + kit.SlotText(slot)
	}
	return dir + "/"
}

// dirOfKey is the [dirOf] of the lock that a key belongs to, and false if it belongs to none: a
// guard key, or what somebody else has put.
func (d *etcdDriver) dirOfKey(key string) (string, bool) {
	text, isOurs := strings.CutPrefix(key, d.prefix)
	text, _, slash := strings.Cut(text, "/")
	dir := d.prefix + text + "/"
	_, _, ok := d.parseDir(dir)
	return dir, isOurs && slash && ok
}

// parseDir is the name and the slot of a [dirOf]. It is not ok if dir is none.
func (d *etcdDriver) parseDir(dir string) (name string, slot int, ok bool) {
	text := strings.TrimSuffix(strings.TrimPrefix(dir, d.prefix), "/")
	text, number, isSlot := strings.Cut(text, slotMark)
	if isSlot {
		if slot, ok = kit.ParseSlot(number); !ok {
			return "", 0, false
		}
	}
	name = unescape(text)
	return name, slot, escape(name) == text && locker.ValidName(name) == nil
}

// endOf is the end of the range of all keys that begin with prefix.
func endOf(prefix string) string { return clientv3.GetPrefixRangeEnd(prefix) }

// guardKeyOf is the guard key of an etcd lease: see etcdLease. No name is written with "%g".
func guardKeyOf(prefix string, id clientv3.LeaseID) string {
	return fmt.Sprintf("%s%%guard/%016x", prefix, int64(id))
}

// sessionOf is the etcd lease that a key is attached to, as etcdctl writes it, and idOf reads that.
func sessionOf(kv *mvccpb.KeyValue) string { return fmt.Sprintf("%016x", uint64(kv.Lease)) }

func idOf(session string) clientv3.LeaseID {
	id, _ := strconv.ParseUint(session, 16, 64) // none: 0
	return clientv3.LeaseID(id)
}

// Owner is what a lease of this backend offers beyond [locker.Lease]: data in the same etcd cluster
// is fenced in the transaction that writes it.
//
//	own, _ := locker.As[etcdbackend.Owner](lease)
//	r, err := client.Txn(ctx).If(own.IsOwner()).Then(clientv3.OpPut("balance", "17")).Commit()
//	// r.Succeeded is false: the lease is over, and nothing was written
type Owner struct {
	key      string
	revision int64
}

// IsOwner is a comparison that is true exactly as long as the cluster has the lease. So a
// transaction that compares it writes nothing for a stale holder. (A cluster that was set back, or founded
// again, may give a create revision a second time.)
func (o Owner) IsOwner() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(o.key), "=", o.revision)
}

// Key is the key of the lease. Its create revision is the lease's token. A later lease of the same Locker may
// have the same key: to look whether it exists says nothing. Compare IsOwner.
func (o Owner) Key() string { return o.key }

// CurrentToken reads the oldest of the name's keys, which is the holder's.
func (d *etcdDriver) CurrentToken(ctx context.Context, name string) (locker.Token, error) {
	dir := dirOf(d.prefix, name, 0)
	oldest := clientv3.OpGet(dir, clientv3.WithRange(endOf(dir)), clientv3.WithKeysOnly(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(1))
	r, err := d.cluster.Txn(ctx, etcdconn.MaxAttempt, nil, []clientv3.Op{oldest}, nil)
	if err != nil {
		return 0, err
	}
	kvs := r.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return 0, nil
	}
	return locker.Token(kvs[0].CreateRevision), nil
}
