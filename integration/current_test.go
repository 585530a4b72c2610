//go:build unix

package integration

import (
	"errors"
	"testing"

	"github.com/fencedlock/locker"
)

// The suite has nothing to say of a backend that can't tell who holds a lock. Which of them can is said here, and in the docs.
func TestCurrent(t *testing.T) {
	needServers(t)
	for _, tc := range []struct {
		backend string
		url     func(*testing.T) string
		offered bool
	}{
		{"redis", func(t *testing.T) string { return redisStandalone(t).url }, true},
		{"redlock", func(t *testing.T) string { return redlockServers(t).url }, false},
		{"etcd", func(t *testing.T) string { return etcdCluster(t).url }, true},
		{"zookeeper", func(t *testing.T) string { return zkEnsemble(t).url }, true},
		{"postgres", func(t *testing.T) string { return pgStandalone(t).url }, false},
	} {
		t.Run(tc.backend, func(t *testing.T) {
			l, err := locker.Open(t.Context(), tc.url(t))
			if err != nil {
				t.Fatal(err)
			}
			keep(t, l)
			name := lockName(t)
			lease := acquire(t, l, name)
			token, err := locker.CurrentToken(t.Context(), l, name)
			release(t, lease)
			switch {
			case tc.offered && (err != nil || token != lease.Token()):
				t.Errorf("CurrentToken = %v, %v, want %v", token, err, lease.Token())
			case !tc.offered && !errors.Is(err, errors.ErrUnsupported):
				t.Errorf("CurrentToken = %v, %v, want ErrUnsupported", token, err)
			}
		})
	}
}
