package reference_test

import (
	"os"
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/internal/reference"
)

// TestExplore searches for a program that the service doesn't get right. There is none.
func TestExplore(t *testing.T) {
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			conformance.Explore(t, reference.Harness(nil, d), budget())
		})
	}
}

// budget is short, and long for LOCKER_SOAK.
func budget() conformance.Budget {
	if os.Getenv("LOCKER_SOAK") == "" {
		return conformance.Budget{Steps: 2000}
	}
	return conformance.Budget{Steps: 100_000, Time: time.Hour}
}
