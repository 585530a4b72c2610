//go:build unix

package etcd

import (
	"testing"

	"github.com/fencedlock/locker/integration/internal/itest"
)

// TestExplore runs random programs on a cluster.
func TestExplore(t *testing.T) {
	itest.Explore(t, []itest.Row{{Name: "etcd", Harness: etcdHarness(clusters)}})
}
