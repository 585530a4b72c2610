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
		{Name: "zookeeper", Harness: zkHarness(ensembles)},
	}
	if os.Getenv("LOCKER_SOAK") != "" { // other versions
		rows = append(rows,
			itest.Row{Name: "zookeeper38", Harness: zkHarness(itest.LazyPool("zookeeper38", startZk))},
		)
	}
	itest.Conformance(t, rows)
}

// zkHarness makes the suite's harness of the ensembles of a pool. Each case has one for itself.
func zkHarness(pool func(*testing.T) *itest.Pool[*Service]) func(*testing.T) conformance.Harness {
	return func(t *testing.T) conformance.Harness {
		p := pool(t)
		h := p.SideBySide(func(t conformance.T, h *conformance.Harness, s *Service) {
			s.flush(t) // what a case that failed has left is not the next one's
			h.Open = func(t conformance.T) locker.Locker { return s.Open(t) }
			h.Hooks = s.hooks(t)
		})
		h.TTL, h.Strict, h.Pack = TTL, true, p.Cases((*Service).pack)
		return h
	}
}

func (s *Service) hooks(t conformance.T) conformance.Hooks {
	t.Helper()
	return conformance.Hooks{
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
		Prefixed: func(t conformance.T, prefix string) locker.Locker { return s.prefixed(t, "/"+prefix) },
		URL:      s.URL,
		BadURLs:  s.badURLs(t),
		Secrets:  []string{zkPassword, "open-sesame"},
	}
}
