//go:build unix

package zk

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/zkbackend"
)

// endedByFormerLeader has a leader decide to end a session when it can't have the others agree any more. It
// tells the client that the session has expired, and then another one leads, which knows the session and
// gives it its whole timeout. The nodes must be gone long before that.
func (s *Service) endedByFormerLeader(t conformance.T, _ *conformance.Harness) {
	const long = 20 * TTL
	rival := step.CloseAtEnd(t, s.Open(t))
	var former *zkServer
	itest.Must(t, func(ctx context.Context) (err error) { former, err = s.leader(ctx); return err })
	at, spy := itest.LocalAddr(former.Port), new(zkSpy)
	var only atomic.Value // the address that can be dialled; "": each
	only.Store(at)
	t.Cleanup(func() { only.Store("") }) // before the Locker is closed
	l := step.CloseAtEnd(t, s.Through(t, func(ctx context.Context, network, addr string) (net.Conn, error) {
		if reached := only.Load(); reached != "" && reached != addr {
			return nil, fmt.Errorf("%s can't be reached", addr)
		}
		return spy.dial(ctx, network, addr)
	}, s.Addrs(), zkbackend.WithDefaultTTL(long)))
	lease := step.Acquire(t, l, step.LockName(t))
	waiter := step.StartAcquire(t, rival, lease.Name())
	step.Eventually(t, itest.ShortWait, func() error { return s.waiting(t, lease.Name(), 1) })

	t.Cleanup(func() {
		itest.Must(t, func(ctx context.Context) error { return errors.Join(s.join(ctx, former), s.wait(ctx)) })
	})
	itest.Must(t, func(ctx context.Context) error { return s.cut(ctx, former) })
	only.Store("nobody") // so the client doesn't take its session back
	itest.Must(t, func(ctx context.Context) error {
		for asked := 0; ; asked++ {
			conn, expired, err := spy.begin(ctx, at)
			switch {
			case err != nil:
				return err
			case expired && asked == 0:
				return errors.New("the session has ended before it was asked")
			case expired: // the leader has read an earlier request to close it
				return nil
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	})
	only.Store(at)
	step.LostWithin(t, itest.ShortWait, lease)
	if err := lease.Err(); !strings.Contains(err.Error(), "the servers have ended the session") {
		t.Fatalf("Err = %v, want that the former leader has ended the session: this case proves nothing", err)
	}
	only.Store("")
	began := time.Now()
	itest.Must(t, func(ctx context.Context) error { _, err := s.leader(ctx, former); return err })
	leads := time.Since(began)
	step.Release(t, waiter.Granted(t, long/2)) // the session lives for longer than that
	t.Logf("after the loss: another server led at %v, and the rival had the lock at %v", leads, time.Since(began))
}
