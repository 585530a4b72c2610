//go:build unix

package redis

import (
	"testing"

	"github.com/fencedlock/locker/integration/internal/itest"
)

// TestExplore runs random programs on one server.
func TestExplore(t *testing.T) {
	itest.Explore(t, []itest.Row{{Name: "redis", Harness: redisHarness(standalones)}})
}
