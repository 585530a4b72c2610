//go:build unix

package pg

import (
	"context"
	"os"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// TestConformance runs the suite and the pack on each service.
func TestConformance(t *testing.T) {
	rows := []itest.Row{
		{Name: "postgres", Harness: pgHarness(standalones)},
		{Name: "postgres-replica", Harness: pgHarness(replicated), Like: "postgres"},
		{Name: "postgres-pgbouncer", Harness: pgHarness(bouncers), Like: "postgres"},
	}
	if os.Getenv("LOCKER_SOAK") != "" { // other versions
		pool := func(start func(context.Context, string) (*Service, error)) func(*testing.T) conformance.Harness {
			return pgHarness(itest.LazyPool("postgres15", start))
		}
		rows = append(rows,
			itest.Row{Name: "postgres15", Harness: pool(Start)},
			itest.Row{Name: "postgres15-replica", Harness: pool(startPgReplica)},
			itest.Row{Name: "postgres15-pgbouncer", Harness: pool(StartBouncer)},
		)
	}
	itest.Conformance(t, rows)
}

// pgHarness makes the suite's harness of the services of a pool. Each case has one for itself.
func pgHarness(pool func(*testing.T) *itest.Pool[*Service]) func(*testing.T) conformance.Harness {
	return func(t *testing.T) conformance.Harness {
		p := pool(t)
		h := p.SideBySide(func(t conformance.T, h *conformance.Harness, s *Service) {
			s.clear(t) // what a case that failed has left is not the next one's
			h.Open, h.Hooks = s.open, s.hooks(t)
		})
		h.TTL, h.Strict, h.Pack = pgTTL, true, p.Cases((*Service).pack)
		return h
	}
}

func (s *Service) hooks(t conformance.T) conformance.Hooks {
	t.Helper()
	hooks := conformance.Hooks{
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
	}
	if s.failing {
		hooks.Failover = func(t conformance.T) { itest.Must(t, s.failover) }
	} else {
		hooks.Absent[conformance.HookFailover] = "the server has no replica"
	}
	return hooks
}
