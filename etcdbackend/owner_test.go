package etcdbackend_test

import (
	"context"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/etcdbackend"
)

// compared is a client's part that keeps what a transaction compares.
type compared struct {
	clientv3.KV
	cmps []clientv3.Cmp
}

func (c *compared) Txn(context.Context) clientv3.Txn { return comparing{c: c} }

// comparing is the transaction of compared.
type comparing struct {
	clientv3.Txn
	c *compared
}

func (t comparing) If(cmps ...clientv3.Cmp) clientv3.Txn {
	t.c.cmps = append(t.c.cmps, cmps...)
	return t
}

// isMet reports whether etcd finds a comparison of a create revision true for a key that has this one; 0: the key
// doesn't exist.
func isMet(t *testing.T, cmp clientv3.Cmp, created int64) bool {
	t.Helper()
	want, ok := cmp.TargetUnion.(*pb.Compare_CreateRevision)
	if !ok || cmp.Target != pb.Compare_CREATE || cmp.Result != pb.Compare_EQUAL {
		t.Fatalf("the comparison is %+v, want one of a create revision, by =", cmp)
	}
	return want.CreateRevision == created
}

// The zero Owner, which locker.As returns of a lease that isn't in etcd, owns nothing. A namespace makes a key of its
// empty one, and that key doesn't exist.
func TestZeroOwnerIsNoOwner(t *testing.T) {
	var c compared
	namespace.NewKV(&c, "app/").Txn(t.Context()).If(etcdbackend.Owner{}.IsOwner())
	if len(c.cmps) != 1 || string(c.cmps[0].Key) != "app/" {
		t.Fatalf("the comparisons are %+v, want one of the namespace's own key", c.cmps)
	}
	for _, created := range []int64{0, 1, 2} {
		if isMet(t, c.cmps[0], created) {
			t.Errorf("the zero Owner is one where the key has the create revision %d", created)
		}
	}
}

func TestOwnerOfALease(t *testing.T) {
	var s cluster
	d := drive(t, clientv3.Config{Endpoints: []string{s.member(t)}})
	l, g := acquire(t, d, "n", 10*time.Second)
	own := l.(driver.Extender).Extension().(etcdbackend.Owner)
	cmp := own.IsOwner()
	if string(cmp.Key) != own.Key() || own.Key() != etcdbackend.KeyOf(l) {
		t.Errorf("the comparison is of the key %q, and Key is %q, want %q", cmp.Key, own.Key(), etcdbackend.KeyOf(l))
	}
	for created, want := range map[int64]bool{int64(g.Token): true, int64(g.Token) + 1: false, 0: false} {
		if isMet(t, cmp, created) != want {
			t.Errorf("with the token %v, IsOwner of a key with the create revision %d is %v, want %v", g.Token, created, !want, want)
		}
	}
}
