//go:build unix

package redis

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// A server whose last snapshot has failed refuses all writes by default. Then its leases end at their
// deadlines, nothing is granted or removed, and all goes on when writes are accepted again.
func TestRedisUnsaved(t *testing.T) {
	itest.NeedServers(t)
	s := itest.Started(t, "redis", func(ctx context.Context, image string) (*Service, error) {
		return startWith(ctx, image, "dir /proc") // where nothing can be written
	})
	l, name, other := step.CloseAtEnd(t, s.Open(t)), step.LockName(t), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.ShortTTL))
	long := step.Acquire(t, l, other, locker.WithTTL(itest.LongTTL))
	waiter := step.StartAcquire(t, step.CloseAtEnd(t, s.Open(t)), other, locker.WithTTL(itest.ShortTTL))
	step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, other, 1) })
	s.all(t, "bgsave")
	step.LostWithin(t, itest.ShortTTL+itest.ShortWait, lease)
	if err := lease.Err(); !strings.Contains(err.Error(), "MISCONF") {
		t.Errorf("Err = %v, want MISCONF as the reason", err)
	}
	if err := step.WantFailure(t, itest.ShortWait, l, step.LockName(t)); !strings.Contains(err.Error(), "MISCONF") {
		t.Errorf("TryAcquire = %v, want MISCONF", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), itest.ShortTTL)
	defer cancel()
	if err := long.Release(ctx); !errors.Is(err, locker.ErrUnconfirmed) || !strings.Contains(err.Error(), "MISCONF") {
		t.Errorf("Release = %v, want ErrUnconfirmed, and MISCONF as the reason", err)
	}
	if !waiter.Returned(itest.ShortTTL+itest.ShortWait) || waiter.Err == nil || !strings.Contains(waiter.Err.Error(), "MISCONF") {
		t.Errorf("Acquire of a waiter = %v, want MISCONF when its place is over", waiter.Err)
	}
	s.all(t, "config", "set", "stop-writes-on-bgsave-error", "no")
	step.FreeWithin(t, itest.ShortWait, l, other)
	step.Eventually(t, itest.ShortWait, func() error {
		if left := s.residue(t); left != "" {
			return errors.New("there are " + left)
		}
		return nil
	})
}
