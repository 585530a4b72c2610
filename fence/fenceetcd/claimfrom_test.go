package fenceetcd_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	mvccpb "go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/fence/fenceetcd"
	"github.com/fencedlock/locker/membackend"
)

// marked is a cluster that has one mark, and takes no writes.
type marked struct {
	clientv3.KV
	value string
	reads int
}

func (m *marked) Get(context.Context, string, ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	m.reads++
	return &clientv3.GetResponse{Kvs: []*mvccpb.KeyValue{{Value: []byte(m.value), ModRevision: 1}}}, nil
}

func TestClaimFrom(t *testing.T) {
	l := membackend.New()
	defer l.Close()
	kv := new(marked)
	mark := fenceetcd.Mark{KV: kv, Key: "fences/invoices/42"}
	if token, err := mark.ClaimFrom(t.Context()); token != 0 || !errors.Is(err, fence.ErrNoLease) || kv.reads != 0 {
		t.Errorf("ClaimFrom a context without a lease = %v, %v after %d requests, want ErrNoLease and none", token, err, kv.reads)
	}
	err := locker.Do(t.Context(), l, "invoices/42", func(ctx context.Context, lease locker.Lease) error {
		kv.value = lease.Token().String() // which this lease has claimed before
		if token, err := mark.ClaimFrom(ctx); token != lease.Token() || err != nil {
			t.Errorf("ClaimFrom = %v, %v, want %v", token, err, lease.Token())
		}
		kv.value = (lease.Token() + 1).String()
		if token, err := mark.ClaimFrom(ctx); token != 0 || !errors.Is(err, fence.ErrStale) {
			t.Errorf("ClaimFrom below the mark = %v, %v, want ErrStale", token, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestMarkWithoutClient(t *testing.T) {
	err := fenceetcd.Mark{Key: "fences/invoices/42"}.Claim(t.Context(), 1)
	if err == nil || !strings.Contains(err.Error(), "no client") {
		t.Errorf("Claim = %v, want an error that says that there is no client", err)
	}
}
