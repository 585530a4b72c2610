//go:build unix

package redlock

import (
	"testing"

	"github.com/fencedlock/locker/integration/internal/itest"
)

// TestExplore runs random programs on five servers.
func TestExplore(t *testing.T) {
	itest.Explore(t, []itest.Row{{Name: "redlock", Harness: redlockHarness(services)}})
}
