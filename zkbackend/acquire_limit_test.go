package zkbackend_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/zkbackend"
)

// A request that waits to be sent survives its connection, until go-zookeeper has dialled all servers in
// vain. An acquisition doesn't wait for that. What its request does later is removed.
func TestAcquireLimitWithoutAServer(t *testing.T) {
	for _, op := range []string{"TryAcquire", "Acquire"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const limit, long = 5 * time.Second, 20 * time.Second // a dial takes up to 2 s
				s := newServer(t)
				var mu sync.Mutex
				cut := false
				l, err := zkbackend.New(t.Context(), []string{"zk1", "zk2", "zk3"}, zkbackend.WithTick(tick), zkbackend.WithDefaultTTL(long),
					zkbackend.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
						mu.Lock()
						wait := cut
						mu.Unlock()
						if wait {
							<-ctx.Done()
							return nil, ctx.Err()
						}
						return s.dial(ctx, network, addr)
					}))
				if err != nil {
					t.Fatal(err)
				}
				for i := range 3 {
					release(t, acquire(t, l, fmt.Sprint(i)))
				}
				setCut := func(on bool) {
					s.mu.Lock()
					s.muted = on
					s.mu.Unlock()
					mu.Lock()
					cut = on
					mu.Unlock()
				}
				setCut(true)
				time.Sleep(tick) // its heartbeats have no answer, so nothing more is sent
				var opts []locker.Option
				if op == "TryAcquire" {
					opts = append(opts, locker.NoWait())
				}
				var all sync.WaitGroup
				for i := range 3 {
					all.Go(func() {
						began := time.Now()
						_, err := l.Acquire(t.Context(), fmt.Sprint(i), opts...)
						if took := time.Since(began); err == nil || took > limit {
							t.Errorf("%s = %v after %v, want an error after %v at most", op, err, took, limit)
						}
					})
				}
				all.Wait()
				setCut(false)
				for i := range 3 {
					eventually(t, "the lock is free", func() bool {
						lease, err := locker.TryAcquire(t.Context(), l, fmt.Sprint(i))
						return err == nil && lease.Release(t.Context()) == nil
					})
					s.nodesAre(t, fmt.Sprint(i), 0)
				}
				if err := l.Close(); err != nil {
					t.Errorf("Close = %v", err)
				}
			})
		})
	}
}
