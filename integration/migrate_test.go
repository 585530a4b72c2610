//go:build unix

package integration

import (
	"errors"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/fence/fenceredis"
	etcdtest "github.com/fencedlock/locker/integration/etcd"
	"github.com/fencedlock/locker/integration/internal/itest"
	redistest "github.com/fencedlock/locker/integration/redis"
)

// TestMigration follows docs/migrating.md: from Redis to etcd, with a resource that has seen Redis'
// tokens.
func TestMigration(t *testing.T) {
	itest.NeedServers(t)
	const base = "10000000000000000" // as in the docs
	redis, etcd := redistest.Standalone(t), etcdtest.Cluster(t)
	name := step.LockName(t)
	mark := fenceredis.Mark{Client: redis.Nodes[0].Admin, Key: name + ":fence"}
	acquire := func(url string) (locker.Lease, error) {
		l, err := locker.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l.Acquire(t.Context(), name)
	}

	old, err := acquire(redis.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := mark.Claim(t.Context(), old.Token()); err != nil {
		t.Fatal(err)
	}

	withoutBase, err := acquire(etcd.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := mark.Claim(t.Context(), withoutBase.Token()); !errors.Is(err, fence.ErrStale) {
		t.Fatalf("without a base Claim(%d) = %v, want ErrStale: otherwise no base would be needed", withoutBase.Token(), err)
	}
	if err := withoutBase.Release(t.Context()); err != nil {
		t.Fatal(err)
	}

	var last locker.Token
	for range 3 {
		lease, err := acquire(etcd.With("token_base", base))
		if err != nil {
			t.Fatal(err)
		}
		if err := mark.Claim(t.Context(), lease.Token()); err != nil || lease.Token() <= last {
			t.Errorf("Claim(%d) = %v after token %d, want nil, and a larger token", lease.Token(), err, last)
		}
		last = lease.Token()
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// A forgotten process may still use the old service. Its lease is still valid there, and the
	// resource refuses its token.
	if _, err := mark.Do(t.Context(), old.Token(), "SET", name, "late"); !errors.Is(err, fence.ErrStale) || old.Err() != nil {
		t.Errorf("a write with the old token = %v, and Err of its lease = %v; want ErrStale and nil", err, old.Err())
	}
}
