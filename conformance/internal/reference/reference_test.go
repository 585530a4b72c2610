package reference_test

import (
	"testing"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/internal/reference"
)

var dialects = map[string]reference.Dialect{
	"full":              {},
	"clock tokens":      {ClockTokens: true},
	"silent revocation": {SilentRevocation: true},
	"polling":           {Polling: true},
}

// TestConformance shows that the service is right without a mutation, in each dialect.
func TestConformance(t *testing.T) {
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) { conformance.Run(t, reference.Harness(nil, d)) })
	}
}
