//go:build unix

package pg

import (
	"testing"

	"github.com/fencedlock/locker/integration/internal/itest"
)

// TestExplore runs random programs on one server.
func TestExplore(t *testing.T) {
	itest.Explore(t, []itest.Row{{Name: "postgres", Harness: pgHarness(standalones)}})
}
