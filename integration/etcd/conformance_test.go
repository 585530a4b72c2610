//go:build unix

package etcd

import (
	"os"
	"testing"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// TestConformance runs the suite and the pack on each service.
func TestConformance(t *testing.T) {
	rows := []itest.Row{
		{Name: "etcd", Harness: etcdHarness(clusters)},
	}
	if os.Getenv("LOCKER_SOAK") != "" { // other versions
		rows = append(rows, itest.Row{Name: "etcd35", Harness: etcdHarness(itest.LazyPool("etcd35", Start))})
	}
	itest.Conformance(t, rows)
}

// etcdHarness makes the suite's harness of the clusters of a pool. Each case has one for itself.
func etcdHarness(pool func(*testing.T) *itest.Pool[*Service]) func(*testing.T) conformance.Harness {
	return func(t *testing.T) conformance.Harness {
		p := pool(t)
		h := p.SideBySide(func(t conformance.T, h *conformance.Harness, s *Service) {
			s.flush(t) // what a case that failed has left is not the next one's
			h.Open, h.Hooks = s.Open, s.hooks(t)
		})
		h.TTL, h.Strict, h.Pack = TTL, true, p.Cases((*Service).pack)
		return h
	}
}
