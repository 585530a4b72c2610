//go:build unix

package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// The quota is used up while many acquisitions are under way. The member executes those that have
// passed its first check, and answers that there is no space. Nothing is left of any of them when they
// have returned and all that was granted is released, although the etcd lease lives on with one lock.
func TestEtcdFull(t *testing.T) {
	itest.NeedServers(t)
	t.Parallel()
	const quota, callers = 4 << 20, 200
	addr := startSingleEtcd(t, "http", nil, "--quota-backend-bytes", fmt.Sprint(quota))
	l := openWithRetry(t, "etcd://"+addr+"?prefix="+etcdPrefix+"&ttl=2m")
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	keys := func() (names []string) {
		itest.Must(t, func(ctx context.Context) error {
			got, err := client.Get(ctx, etcdPrefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
			if err == nil {
				names = nil
				for _, kv := range got.Kvs {
					names = append(names, string(kv.Key))
				}
			}
			return err
		})
		return names
	}
	alive := step.Acquire(t, l, step.LockName(t))
	want := keys()

	for i, filler := 0, strings.Repeat("x", 1<<20); i < 3; i++ {
		itest.Must(t, func(ctx context.Context) error {
			_, err := client.Put(ctx, fmt.Sprint("filler", i), filler)
			return err
		})
	}
	var full atomic.Bool
	var all sync.WaitGroup
	var mu sync.Mutex
	var leases []locker.Lease
	for caller := range callers {
		all.Go(func() {
			for i := 0; !full.Load(); i++ {
				lease, err := locker.TryAcquire(t.Context(), l, fmt.Sprint(caller, "-", i), locker.WithHolder(strings.Repeat("h", locker.MaxHolder)))
				switch {
				case err == nil:
					mu.Lock()
					leases = append(leases, lease)
					mu.Unlock()
				case full.Swap(true):
				case !strings.Contains(err.Error(), "space exceeded"):
					t.Errorf("TryAcquire = %v, want it to name the space as the reason", err)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d locks were granted", len(leases))
	for _, lease := range leases {
		step.Release(t, lease)
	}
	step.Eventually(t, itest.ShortWait, func() error {
		if left := keys(); len(left) != len(want) {
			return fmt.Errorf("%d keys are left, such as %q, want only %q", len(left), left[:min(len(left), 3)], want)
		}
		return nil
	})
	if err := alive.Renew(t.Context()); err != nil {
		t.Errorf("Renew = %v, want nil: renewals need no space", err)
	}
	step.Release(t, alive)
}
