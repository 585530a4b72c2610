//go:build unix

package redis

import (
	"errors"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// A master that has lost its replicas refuses writes if its settings say so. Then its leases end at their deadlines, nothing is granted,
// and nothing is left of what was refused.
func TestRedisWithoutReplicas(t *testing.T) {
	itest.NeedServers(t)
	s := itest.Lazily("redis", Start)(t)
	l, name, other := itest.Keep(t, s.Open(t)), itest.LockName(t), itest.LockName(t)
	lease := itest.Acquire(t, l, name, locker.WithTTL(itest.ShortTTL))
	s.changedConfig(t, "min-replicas-to-write", "1", "0")
	itest.Lost(t, itest.ShortTTL+itest.Soon, lease)
	if err := lease.Err(); !strings.Contains(err.Error(), "NOREPLICAS") {
		t.Errorf("Err = %v, want NOREPLICAS as the reason", err)
	}
	if err := itest.Refused(t, itest.Soon, l, other); !strings.Contains(err.Error(), "NOREPLICAS") {
		t.Errorf("TryAcquire = %v, want NOREPLICAS", err)
	}
	itest.Eventually(t, itest.Soon, func() error {
		if left := s.residue(t); left != "" {
			return errors.New("there are " + left)
		}
		return nil
	})
}
