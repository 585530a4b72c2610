//go:build unix

package pg

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
		{Name: "postgres", Harness: pgHarness(Standalone)},
		{Name: "postgres-replica", Harness: pgHarness(pgReplica)},
		{Name: "postgres-pgbouncer", Harness: pgHarness(pgBouncer)},
	}
	if os.Getenv("LOCKER_SOAK") != "" { // other versions
		rows = append(rows,
			itest.Row{Name: "postgres15", Harness: pgHarness(itest.Lazily("postgres15", Start))},
			itest.Row{Name: "postgres15-replica", Harness: pgHarness(itest.Lazily("postgres15", startPgReplica))},
			itest.Row{Name: "postgres15-pgbouncer", Harness: pgHarness(itest.Lazily("postgres15", StartBouncer))},
		)
	}
	itest.Conformance(t, rows)
}

// pgHarness makes the suite's harness of a service.
func pgHarness(service func(*testing.T) *Service) func(*testing.T) conformance.Harness {
	return func(t *testing.T) conformance.Harness {
		s := service(t)
		h := conformance.Harness{
			Open:   s.open,
			TTL:    pgTTL,
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
				Remove:   s.remove,
				Requests: s.requests,
				Waiters:  s.waiters,
				Residue:  s.residue,
				Prefixed: func(t conformance.T, prefix string) locker.Locker { return itest.OpenURL(t, s.with("prefix", prefix)) },
				Narrow:   s.narrow,
				URL:      s.URL,
				BadURLs:  s.badURLs(t),
				Secrets:  []string{pgPassword, "open-sesame"},
				Absent: map[conformance.Hook]string{
					conformance.HookWipe: "tokens are part of the data, and Guarantees say so",
				},
			},
		}
		if s.failing {
			h.Failover = func(t conformance.T) { itest.Must(t, s.failover) }
		} else {
			h.Absent[conformance.HookFailover] = "the server has no replica"
		}
		return h
	}
}
