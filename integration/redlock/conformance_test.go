//go:build unix

package redlock

import (
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/internal/itest"
	redistest "github.com/fencedlock/locker/integration/redis"
)

// TestConformance runs the suite and the pack on each service.
func TestConformance(t *testing.T) {
	rows := []itest.Row{
		{Name: "redlock", Harness: redlockHarness(Servers)},
	}
	itest.Conformance(t, rows)
}

// redlockHarness makes the suite's harness of a service.
func redlockHarness(service func(*testing.T) *Service) func(*testing.T) conformance.Harness {
	return func(t *testing.T) conformance.Harness {
		s := service(t)
		return conformance.Harness{
			Open:   s.Open,
			TTL:    itest.ShortTTL,
			Strict: true,
			Pack:   s.pack(),
			Setup: func(t conformance.T, _ *conformance.Harness) {
				s.clear(t) // what a case that failed has left is not the next one's
			},
			Hooks: conformance.Hooks{
				Linked:   s.linked,
				Process:  itest.StartHolder(s.URL),
				Skewed:   itest.StartSkewed(s.URL),
				Pause:    s.pause,
				Resume:   s.resume,
				Down:     s.down,
				Up:       s.up,
				Restart:  s.restart,
				Wipe:     s.wipe,
				Remove:   s.remove,
				Requests: s.requests,
				Waiters:  s.Waiters,
				Residue:  s.residue,
				Prefixed: s.prefixed,
				Narrow:   func(t conformance.T) locker.Locker { return itest.OpenURL(t, s.with("pool_size", "1")) },
				URL:      s.URL,
				BadURLs:  s.badURLs(t),
				Secrets:  []string{redistest.Password, "open-sesame"},
				Absent:   map[conformance.Hook]string{conformance.HookFailover: "no server has a replica"},
			},
		}
	}
}
