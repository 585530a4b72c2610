//go:build unix

package integration

import (
	"errors"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
)

// A master that has lost its replicas refuses writes if its settings say so. Then its leases end at their deadlines, nothing is granted,
// and nothing is left of what was refused.
func TestRedisWithoutReplicas(t *testing.T) {
	needServers(t)
	s := lazily("redis", startRedis)(t)
	l, name, other := keep(t, s.open(t)), lockName(t), lockName(t)
	lease := acquire(t, l, name, locker.WithTTL(shortTTL))
	s.changedConfig(t, "min-replicas-to-write", "1", "0")
	lost(t, shortTTL+soon, lease)
	if err := lease.Err(); !strings.Contains(err.Error(), "NOREPLICAS") {
		t.Errorf("Err = %v, want NOREPLICAS as the reason", err)
	}
	if err := refused(t, soon, l, other); !strings.Contains(err.Error(), "NOREPLICAS") {
		t.Errorf("TryAcquire = %v, want NOREPLICAS", err)
	}
	eventually(t, soon, func() error {
		if left := s.residue(t); left != "" {
			return errors.New("there are " + left)
		}
		return nil
	})
}
