//go:build unix

package redlock

import (
	"context"
	"testing"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// TestExplore runs random programs on five servers.
func TestExplore(t *testing.T) {
	itest.Explore(t, []itest.Row{{Name: "redlock", Harness: func(t *testing.T) conformance.Harness {
		p := services(t)
		h := redlockHarness(services)(t)
		// A program knows nothing of what the one before it has done to the servers.
		fresh := p.SideBySide(func(t conformance.T, h *conformance.Harness, s *Service) {
			s.all(t, "flushall")
			itest.Must(t, func(ctx context.Context) error { return s.waive(ctx, s.URL) })
			h.Open, h.Hooks = s.Open, s.hooks(t)
			h.Down, h.Up = nil, nil // they restart the servers, which ends leases, as Restart does
		})
		h.Setup = fresh.Setup
		return h
	}}})
}
