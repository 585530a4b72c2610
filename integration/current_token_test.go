//go:build unix

package integration

import (
	"errors"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	etcdtest "github.com/fencedlock/locker/integration/etcd"
	"github.com/fencedlock/locker/integration/internal/itest"
	pgtest "github.com/fencedlock/locker/integration/pg"
	redistest "github.com/fencedlock/locker/integration/redis"
	redlocktest "github.com/fencedlock/locker/integration/redlock"
	zktest "github.com/fencedlock/locker/integration/zk"
)

// The suite doesn't test backends that can't report the current token. This test and the docs say
// which backends can.
func TestCurrent(t *testing.T) {
	itest.NeedServers(t)
	for _, tc := range []struct {
		backend string
		url     func(*testing.T) string
		offered bool
	}{
		{"redis", func(t *testing.T) string { return redistest.Standalone(t).URL }, true},
		{"redlock", func(t *testing.T) string { return redlocktest.Servers(t).URL }, false},
		{"etcd", func(t *testing.T) string { return etcdtest.Cluster(t).URL }, true},
		{"zookeeper", func(t *testing.T) string { return zktest.Ensemble(t).URL }, true},
		{"postgres", func(t *testing.T) string { return pgtest.Standalone(t).URL }, false},
	} {
		t.Run(tc.backend, func(t *testing.T) {
			l, err := locker.Open(t.Context(), tc.url(t))
			if err != nil {
				t.Fatal(err)
			}
			step.CloseAtEnd(t, l)
			name := step.LockName(t)
			lease := step.Acquire(t, l, name)
			token, err := locker.CurrentToken(t.Context(), l, name)
			step.Release(t, lease)
			switch {
			case tc.offered && (err != nil || token != lease.Token()):
				t.Errorf("CurrentToken = %v, %v, want %v", token, err, lease.Token())
			case !tc.offered && !errors.Is(err, errors.ErrUnsupported):
				t.Errorf("CurrentToken = %v, %v, want ErrUnsupported", token, err)
			}
		})
	}
}
