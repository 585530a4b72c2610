//go:build unix

package zk

import (
	"os"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// TestConformance runs the suite and the pack on each service.
func TestConformance(t *testing.T) {
	rows := []itest.Row{
		{Name: "zookeeper", Harness: zkHarness(Ensemble)},
	}
	if os.Getenv("LOCKER_SOAK") != "" { // other versions
		rows = append(rows,
			itest.Row{Name: "zookeeper38", Harness: zkHarness(itest.Lazily("zookeeper38", startZk))},
		)
	}
	itest.Conformance(t, rows)
}

// zkHarness makes the suite's harness of an ensemble.
func zkHarness(service func(*testing.T) *Service) func(*testing.T) conformance.Harness {
	return func(t *testing.T) conformance.Harness {
		s := service(t)
		return conformance.Harness{
			Open:   func(t conformance.T) locker.Locker { return s.Open(t) },
			TTL:    TTL,
			Strict: true,
			Pack:   s.pack(),
			Setup: func(t conformance.T, _ *conformance.Harness) {
				s.flush(t) // what a case that failed has left is not the next one's
			},
			Hooks: conformance.Hooks{
				Linked:   func(t conformance.T) (locker.Locker, conformance.Link) { return s.linked(t) },
				Process:  itest.StartHolder(s.URL),
				Skewed:   itest.StartSkewed(s.URL),
				Pause:    s.pause,
				Resume:   s.resume,
				Down:     s.down,
				Up:       s.up,
				Restart:  s.restart,
				Wipe:     s.wipe,
				Failover: s.failover,
				Remove:   s.remove,
				Requests: func(conformance.T) int64 { return s.counter.n.Load() },
				Waiters:  s.Waiters,
				Residue:  s.residue,
				Prefixed: func(t conformance.T, prefix string) locker.Locker { return itest.OpenURL(t, s.at("/"+prefix)) },
				URL:      s.URL,
				BadURLs:  s.badURLs(t),
				Secrets:  []string{zkPassword, "open-sesame"},
			},
		}
	}
}
