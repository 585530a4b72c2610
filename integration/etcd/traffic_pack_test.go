//go:build unix

package etcd

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// received counts what comes through connections.
type received struct{ bytes atomic.Int64 }

func (r *received) dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	return countedConn{conn, r}, err
}

type countedConn struct {
	net.Conn
	received *received
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.bytes.Add(int64(n))
	return n, err
}

const busyLocks = 1000

// othersTraffic counts the bytes that come to a Locker which waits for one lock and holds another,
// while 1,000 other locks are taken and given back. What may come is its renewals.
func (s *Service) othersTraffic(t conformance.T, _ *conformance.Harness) {
	r := new(received)
	config := s.Config
	config.DialOptions = []grpc.DialOption{grpc.WithContextDialer(r.dial)}
	l, holder, name := step.CloseAtEnd(t, NewLocker(t, config)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, holder, name, locker.WithTTL(itest.LongTTL))
	mine := step.Acquire(t, l, step.LockName(t), locker.WithTTL(itest.LongTTL))
	waiter := s.queued(t, l, name, itest.LongTTL)
	step.Pass(t, itest.ShortWait/5) // so that all is watched that is going to be

	before := r.bytes.Load()
	busy := []locker.Locker{step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t))}
	stem := step.LockName(t)
	var all sync.WaitGroup
	errs := make(chan error, len(busy)*8)
	for worker := range cap(errs) {
		all.Go(func() {
			for i := worker; i < busyLocks; i += cap(errs) {
				lease, err := busy[worker%len(busy)].Acquire(t.Context(), fmt.Sprint(name, "-", stem, i)) // the name is a prefix of this one
				if err == nil {
					err = lease.Release(t.Context())
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-errs:
		t.Fatalf("a busy lock: %v", err)
	default:
	}
	cost := r.bytes.Load() - before
	t.Logf("%d bytes came to a Locker that waits, while others took and gave back %d locks", cost, busyLocks)
	if cost > 10*busyLocks { // an event has 100 bytes and more
		t.Errorf("%d bytes for %d locks of others, want none but those of renewals", cost, busyLocks)
	}
	waiter.WantPending(t)
	step.Release(t, lease)
	step.Release(t, waiter.Granted(t, itest.ShortWait))
	step.Release(t, mine)
}
