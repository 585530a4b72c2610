//go:build unix

package itest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance"
)

// searches is how many searches there are at the same time on one kind of service, each on services
// of its own.
const searches = 2

// short is the length of a search that is part of all tests. The program that has begun by then is
// executed to its end.
const short = 10 * time.Second

// Explore runs random programs on each service, for as long as the environment variable
// LOCKER_EXPLORE says, such as 30m; without it for a few seconds. Each program has a service of its
// own, like a case. The searches run while other parallel tests of the package do.
func Explore(t *testing.T, rows []Row) {
	t.Parallel()
	length := short
	if text := os.Getenv("LOCKER_EXPLORE"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("LOCKER_EXPLORE: %v: want a duration, such as 30m", err)
		}
	}
	budget := conformance.Budget{Steps: 1 << 40, Time: length, Shrink: 2 * time.Minute} // the time ends the search
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
