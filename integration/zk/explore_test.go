//go:build unix

package zk

import (
	"testing"

	"github.com/fencedlock/locker/integration/internal/itest"
)

// TestExplore runs random programs on an ensemble.
func TestExplore(t *testing.T) {
	itest.Explore(t, []itest.Row{{Name: "zookeeper", Harness: zkHarness(ensembles)}})
}
