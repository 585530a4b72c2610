//go:build unix

package zk

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/zkbackend"
)

// sessionEnded makes each of the servers end a session. The client is connected to one of these
// servers.
func (s *Service) sessionEnded(t conformance.T, _ *conformance.Harness) {
	for _, addr := range s.Addrs() {
		s.endedAt(t, addr)
	}
}

func (s *Service) endedAt(t conformance.T, addr string) {
	spy := new(zkSpy)
	l, other := step.CloseAtEnd(t, s.Through(t, spy.dial, s.Addrs())), step.CloseAtEnd(t, s.Open(t))
	lease, taken := step.Acquire(t, l, step.LockName(t)), step.Acquire(t, other, step.LockName(t))
	waiter := step.StartAcquire(t, l, taken.Name())
	step.Eventually(t, itest.ShortWait, func() error { return s.waiting(t, taken.Name(), 1) })
	before := time.Now()
	itest.Must(t, func(ctx context.Context) error { return spy.end(ctx, addr) })
	step.LostWithin(t, itest.ShortWait, lease)
	if !before.Before(lease.Deadline()) {
		t.Errorf("it was lost by its deadline, not by the end of its session")
	}
	step.Eventually(t, itest.ShortWait, func() error { return s.waiting(t, taken.Name(), 1) })
	step.FreeWithin(t, itest.ShortWait, other, lease.Name())
	step.FreeWithin(t, itest.ShortWait, l, lease.Name())
	waiter.WantPending(t)
	step.Release(t, taken)
	step.Release(t, waiter.Granted(t, itest.ShortWait))
}

func (s *Service) sessionExpired(t conformance.T, h *conformance.Harness) {
	other := step.CloseAtEnd(t, s.Open(t))
	l, network := s.linked(t, zkbackend.WithDefaultTTL(TTL))
	step.CloseAtEnd(t, l)
	lease, taken := step.Acquire(t, l, step.LockName(t)), step.Acquire(t, other, step.LockName(t))
	waiter := step.StartAcquire(t, l, taken.Name())
	step.Eventually(t, itest.ShortWait, func() error { return s.waiting(t, taken.Name(), 1) })
	network.Cut()
	next := step.StartAcquire(t, other, lease.Name())
	step.LostWithin(t, itest.ShortWait, lease)
	step.Release(t, next.Granted(t, TTL+l.Guarantees().Expiry.Slack+itest.ShortWait)) // so the session is over
	step.Eventually(t, itest.ShortWait, func() error { return s.waiting(t, taken.Name(), 0) })
	network.Heal()
	step.Eventually(t, step.Limit, func() error { return s.waiting(t, taken.Name(), 1) })
	step.FreeWithin(t, itest.ShortWait, l, lease.Name())
	waiter.WantPending(t)
	step.Release(t, taken)
	step.Release(t, waiter.Granted(t, itest.ShortWait))
}

// reaped takes a lock at moments around those at which its node is removed.
func (s *Service) reaped(t conformance.T, _ *conformance.Harness) {
	l, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	// At the same time there are a few names whose nodes are removed again and again while they are
	// used.
	names := []string{step.LockName(t), step.LockName(t), step.LockName(t), step.LockName(t)}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for i := range 8 {
		all.Go(func() {
			for ctx.Err() == nil {
				err := locker.Do(ctx, l, names[i%4], func(context.Context, locker.Lease) error { return nil })
				if err != nil && ctx.Err() == nil {
					t.Errorf("Do = %v", err)
					return
				}
				select {
				case <-time.After(time.Duration(i) * 300 * time.Millisecond): // so that some are idle and removed, at all moments
				case <-ctx.Done():
				}
			}
		})
	}
	var last locker.Token
	for range 5 {
		for range 10 {
			lease := step.Acquire(t, l, name)
			if lease.Token() <= last {
				t.Fatalf("token %v after %v", lease.Token(), last)
			}
			last = lease.Token()
			step.Release(t, lease)
		}
		step.Eventually(t, step.Limit, func() error {
			if _, err := s.admin.Sync("/"); err != nil { // its server may not have heard of the node yet
				return err
			}
			there, _, err := s.admin.Exists(zkDir(name))
			if there {
				err = errors.New("its node is still there")
			}
			return err
		})
		lease := step.Acquire(t, l, name)
		if lease.Token() <= last {
			t.Fatalf("token %v after %v, between which the lock's node was removed", lease.Token(), last)
		}
		last = lease.Token()
		itest.Must(t, func(ctx context.Context) error {
			paths, err := s.queue(ctx, name)
			if err == nil && (len(paths) != 1 || !strings.HasSuffix(paths[0], "-0000000000")) {
				t.Errorf("the first node after the lock's was removed is %q, want number 0", paths)
			}
			return err
		})
		step.Release(t, lease)
	}
}
