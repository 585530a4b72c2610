//go:build unix

package itest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance"
)

const (
	// exploreFor is how long each service is explored, unless the environment variable
	// LOCKER_EXPLORE says otherwise, such as 30m.
	exploreFor = 15 * time.Second

	// searches is how many searches there are at the same time on one kind of service, each on
	// services of its own.
	searches = 2
)

// Explore runs random programs on each service. Each program has a service of its own, like a case.
func Explore(t *testing.T, rows []Row) {
	budget := conformance.Budget{Steps: 1 << 40, Time: exploreFor} // the time ends the search
	if text := os.Getenv("LOCKER_EXPLORE"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("LOCKER_EXPLORE: %v: want a duration, such as 30m", err)
		}
		budget.Time, budget.Shrink = d, 2*time.Minute
	}
	for _, row := range rows {
		t.Run(row.Name, func(t *testing.T) {
			NeedServers(t)
			t.Parallel()
			h := row.Harness(t)
			h.Wrap = nil // it makes the test of a case parallel, and a program is no test
			for i := range searches {
				t.Run(fmt.Sprintf("X%d", i+1), func(t *testing.T) {
					t.Parallel()
					conformance.Explore(t, h, budget)
				})
			}
		})
	}
}
