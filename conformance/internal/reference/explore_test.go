package reference_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/internal/reference"
)

// TestExplore searches for a program that the service doesn't get right. There is none.
func TestExplore(t *testing.T) {
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			conformance.Explore(t, reference.Harness(nil, d), budget(t))
		})
	}
}

// budget is short. LOCKER_EXPLORE_OPS is another number of operations, such as 1000000.
func budget(t *testing.T) conformance.Budget {
	t.Helper()
	text := os.Getenv("LOCKER_EXPLORE_OPS")
	if text == "" {
		return conformance.Budget{Steps: 2000}
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("LOCKER_EXPLORE_OPS: %v: want a number of operations, such as 1000000", err)
	}
	return conformance.Budget{Steps: n, Time: 24 * time.Hour} // the operations end the search
}
