//go:build unix

package integration

import (
	"errors"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/fence/fenceredis"
	etcdtest "github.com/fencedlock/locker/integration/etcd"
	"github.com/fencedlock/locker/integration/internal/itest"
	redistest "github.com/fencedlock/locker/integration/redis"
)

// The procedure of docs/migrating.md: from Redis to etcd, with a resource that has seen Redis' tokens.
func TestMigration(t *testing.T) {
	itest.NeedServers(t)
	const base = "10000000000000000" // as in the docs
	redis, etcd := redistest.Standalone(t), etcdtest.Cluster(t)
	name := itest.LockName(t)
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

	bare, err := acquire(etcd.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := mark.Claim(t.Context(), bare.Token()); !errors.Is(err, fence.ErrStale) {
		t.Fatalf("without a base Claim(%d) = %v, want ErrStale: or nobody would need one", bare.Token(), err)
	}
	if err := bare.Release(t.Context()); err != nil {
		t.Fatal(err)
	}

	var last locker.Token
	for range 3 {
		lease, err := acquire(etcd.With("token_base", base))
		if err != nil {
			t.Fatal(err)
		}
		if err := mark.Claim(t.Context(), lease.Token()); err != nil || lease.Token() <= last {
			t.Errorf("Claim(%d) = %v after token %d, want it accepted, and the token larger", lease.Token(), err, last)
		}
		last = lease.Token()
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// The old service was forgotten by somebody: its holder still believes in its lease, and is refused.
	if _, err := mark.Do(t.Context(), old.Token(), "SET", name, "late"); !errors.Is(err, fence.ErrStale) || old.Err() != nil {
		t.Errorf("a write with the old token = %v, and the lease's Err is %v; want ErrStale, and nil", err, old.Err())
	}
}
