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
		{Name: "etcd", Harness: etcdHarness(Cluster)},
	}
	if os.Getenv("LOCKER_SOAK") != "" { // other versions
		rows = append(rows, itest.Row{Name: "etcd35", Harness: etcdHarness(itest.Lazily("etcd35", Start))})
	}
	itest.Conformance(t, rows)
}

// etcdHarness makes the suite's harness of clusters like that of a service. Each case has one for
// itself.
func etcdHarness(service func(*testing.T) *Service) func(*testing.T) conformance.Harness {
	return func(t *testing.T) conformance.Harness {
		clusters := service(t).clusters()
		return conformance.Harness{
			TTL:    TTL,
			Strict: true,
			Pack:   clusters.cases((*Service).pack),
			Wrap:   sideBySide,
			Setup: func(t conformance.T, h *conformance.Harness) {
				s := clusters.first
				if ofCase(t) {
					s = clusters.take(t)
				}
				s.flush(t) // what a case that failed has left is not the next one's
				h.Open, h.Hooks = s.Open, s.hooks(t)
			},
		}
	}
}
