//go:build unix

package redlock

import (
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/internal/itest"
	redistest "github.com/fencedlock/locker/integration/redis"
)

// TestConformance runs the suite and the pack on each service.
func TestConformance(t *testing.T) {
	rows := []itest.Row{
		{Name: "redlock", Harness: redlockHarness(services)},
	}
	itest.Conformance(t, rows)
}

// redlockHarness makes the suite's harness of the services of a pool. Each case has one for itself.
func redlockHarness(pool func(*testing.T) *itest.Pool[*Service]) func(*testing.T) conformance.Harness {
	return func(t *testing.T) conformance.Harness {
		p := pool(t)
		h := p.SideBySide(func(t conformance.T, h *conformance.Harness, s *Service) {
			s.clear(t) // what a case that failed has left is not the next one's
			h.Open, h.Hooks = s.Open, s.hooks(t)
		})
		h.TTL, h.Strict, h.Pack = itest.ShortTTL, true, p.Cases((*Service).pack)
		h.Recovery = LongestTTL + time.Second // a server that was started takes no part for the longest TTL
		return h
	}
}

func (s *Service) hooks(t conformance.T) conformance.Hooks {
	t.Helper()
	return conformance.Hooks{
		Linked:    s.linked,
		Forgetful: s.linkedByURL,
		Process:   itest.StartHolder(s.URL),
		Skewed:    itest.StartSkewed(s.URL),
		Pause:     s.pause,
		Resume:    s.resume,
		Down:      s.down,
		Up:        s.up,
		Restart:   s.restart,
		Wipe:      s.wipe,
		Remove:    s.remove,
		Requests:  s.requests,
		Waiters:   s.Waiters,
		Residue:   s.residue,
		Prefixed:  s.prefixed,
		Narrow:    func(t conformance.T) locker.Locker { return itest.OpenURL(t, s.with("pool_size", "1")) },
		URL:       s.URL,
		BadURLs:   s.badURLs(t),
		Secrets:   []string{redistest.Password, "open-sesame"},
		Absent:    map[conformance.Hook]string{conformance.HookFailover: "no server has a replica"},
	}
}
