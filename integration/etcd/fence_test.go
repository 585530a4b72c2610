//go:build unix

package etcd

import (
	"context"
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/fence/fenceetcd"
	"github.com/fencedlock/locker/fence/fencetest"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// fencedEtcd keeps values in etcd and checks marks before writes.
type fencedEtcd struct{ client *clientv3.Client }

func (s fencedEtcd) mark(resource string) (mark fenceetcd.Mark, key string) {
	return fenceetcd.Mark{KV: s.client, Key: "fence/" + resource}, "fenced/" + resource
}

func (s fencedEtcd) Claim(ctx context.Context, resource string, token locker.Token) error {
	if err := fence.Check(resource, token); err != nil {
		return err
	}
	mark, _ := s.mark(resource)
	return mark.Claim(ctx, token)
}

func (s fencedEtcd) Write(ctx context.Context, resource string, token locker.Token, value string) error {
	if err := s.Claim(ctx, resource, token); err != nil {
		return err
	}
	mark, key := s.mark(resource)
	_, err := mark.Commit(ctx, token, nil, clientv3.OpPut(key, value))
	return err
}

func (s fencedEtcd) Read(ctx context.Context, resource string) (string, error) {
	_, key := s.mark(resource)
	r, err := s.client.Get(ctx, key)
	if err != nil || len(r.Kvs) == 0 {
		return "", err
	}
	return string(r.Kvs[0].Value), nil
}

var fenceCluster = itest.Lazily("etcd", Start) // of its own: it is killed

// The suite for storages passes on etcd.
func TestFenceEtcd(t *testing.T) {
	itest.NeedServers(t)
	s := fenceCluster(t)
	fencetest.Run(t, fencetest.Harness{
		Open: func() (fencetest.Store, error) {
			client, err := s.client(s.Config.Endpoints, "root")
			if err == nil {
				t.Cleanup(func() { _ = client.Close() })
			}
			return fencedEtcd{client}, err
		},
		Crash: func() error { s.restart(t); return nil },
	})
}

// What a Commit says when it wrote nothing.
func TestFenceEtcdCommit(t *testing.T) {
	itest.NeedServers(t)
	client, err := fenceCluster(t).client(fenceCluster(t).Config.Endpoints, "root")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	name := step.LockName(t)
	mark := fenceetcd.Mark{KV: client, Key: "fences/" + name}
	put := clientv3.OpPut(name, "x")
	absent := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(name), "=", 0)}
	commit := func(token locker.Token, want error) {
		t.Helper()
		if _, err := mark.Commit(t.Context(), token, absent, put); !errors.Is(err, want) || (want == nil && err != nil) {
			t.Errorf("Commit(%d) = %v, want %v", token, err, want)
		}
	}
	if _, err := mark.Commit(t.Context(), 5, nil, put); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("Commit without a claim = %v, want an error of its own", err)
	}
	if err := mark.Claim(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	commit(5, nil)
	commit(5, fenceetcd.ErrCompare)
	if err := mark.Claim(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	commit(5, fence.ErrStale)
	if _, err := client.Put(t.Context(), mark.Key, "none"); err != nil {
		t.Fatal(err)
	}
	if err := mark.Claim(t.Context(), 7); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("Claim of what is no mark = %v, want an error of its own", err)
	}
}
