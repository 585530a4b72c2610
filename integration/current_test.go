//go:build unix

package integration

import (
	"errors"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// The suite has nothing to say of a backend that can't tell who holds a lock. Which of them can is said here, and in the docs.
func TestCurrent(t *testing.T) {
	needServers(t)
	for _, tc := range []struct {
		backend string
		harness func(*testing.T) conformance.Harness
		offered bool
	}{
		{"redis", redisHarness(redisStandalone), true},
		{"redlock", redlockHarness(redlockServers), false},
		{"etcd", etcdHarness(etcdCluster), true},
		{"zookeeper", zkHarness(zkEnsemble), true},
		{"postgres", pgHarness(pgStandalone), false},
	} {
		t.Run(tc.backend, func(t *testing.T) {
			l, err := locker.Open(t.Context(), tc.harness(t).URL)
			if err != nil {
				t.Fatal(err)
			}
			keep(t, l)
			name := lockName(t)
			lease := acquire(t, l, name)
			token, err := locker.Current(t.Context(), l, name)
			release(t, lease)
			switch {
			case tc.offered && (err != nil || token != lease.Token()):
				t.Errorf("Current = %v, %v, want %v", token, err, lease.Token())
			case !tc.offered && !errors.Is(err, errors.ErrUnsupported):
				t.Errorf("Current = %v, %v, want ErrUnsupported", token, err)
			}
		})
	}
}
