//go:build unix

package redis

import (
	"errors"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// A master that has lost its replicas refuses writes if its settings say so. Then its leases end at
// their deadlines, nothing is granted, and nothing is left of what was refused.
func TestRedisWithoutReplicas(t *testing.T) {
	itest.NeedServers(t)
	s := itest.Started(t, "redis", Start)
	l, name, other := step.CloseAtEnd(t, s.Open(t)), step.LockName(t), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.ShortTTL))
	s.changedConfig(t, "min-replicas-to-write", "1", "0")
	step.LostWithin(t, itest.ShortTTL+itest.ShortWait, lease)
	if err := lease.Err(); !strings.Contains(err.Error(), "NOREPLICAS") {
		t.Errorf("Err = %v, want NOREPLICAS as the reason", err)
	}
	if err := step.WantFailure(t, itest.ShortWait, l, other); !strings.Contains(err.Error(), "NOREPLICAS") {
		t.Errorf("TryAcquire = %v, want NOREPLICAS", err)
	}
	step.Eventually(t, itest.ShortWait, func() error {
		if left := s.residue(t); left != "" {
			return errors.New("there are " + left)
		}
		return nil
	})
}
