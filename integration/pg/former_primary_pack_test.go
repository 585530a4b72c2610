//go:build unix

package pg

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// leavesFormerPrimary has a Locker wait on a primary that is replaced, and goes on. What the Locker
// connects to from then on is the new one.
func (s *Service) leavesFormerPrimary(t conformance.T, _ *conformance.Harness) {
	var former, replica *pgNode
	itest.Must(t, func(ctx context.Context) (err error) {
		if former, err = s.leader(ctx); err == nil {
			replica, err = s.follower(ctx)
		}
		return err
	})
	var port atomic.Int64
	port.Store(int64(former.port))
	l := step.CloseAtEnd(t, s.dialled(t, func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", strconv.FormatInt(port.Load(), 10)))
	}))
	other, name := step.CloseAtEnd(t, itest.OpenURL(t, pgURL(pgUser, pgPassword, pgDatabase, former.port))), step.LockName(t)
	held := step.Acquire(t, other, name, locker.WithTTL(itest.LongTTL))
	stays := step.Acquire(t, other, name+"stays", locker.WithTTL(itest.LongTTL))
	own := step.Acquire(t, l, name+"own", locker.WithTTL(itest.ShortTTL))
	waiter := step.StartAcquire(t, l, name, locker.WithTTL(itest.ShortTTL))
	step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 1) })
	itest.Must(t, func(ctx context.Context) error { return s.promote(ctx, replica) })
	t.Cleanup(func() {
		itest.Docker(t, []string{former.ID}, "kill")
		itest.Must(t, func(ctx context.Context) error { return s.rejoin(ctx, former) })
	})
	port.Store(int64(replica.port))
	seen := step.Acquire(t, l, name+"seen", locker.WithTTL(2*itest.ShortTTL)) // on a connection of its own
	lease := waiter.Granted(t, itest.ShortWait)                               // it is held on the former primary, and free on the new one
	later(t, max(held.Token(), own.Token()), lease.Token())
	if status, err := locker.Inspect(t.Context(), l, stays.Name(), locker.Look{}); err != nil || status.Holder != nil {
		t.Errorf("Inspect = %+v, %v: it asks the former primary", status, err)
	}
	if err := own.Err(); err != nil {
		t.Errorf("the lease from before: %v, want nil", err)
	}
	for _, lease := range []locker.Lease{lease, seen, own} {
		step.Release(t, lease)
	}
}
