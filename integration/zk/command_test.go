//go:build unix

package zk

import (
	"testing"

	"github.com/fencedlock/locker/integration/internal/itest"
)

func TestBenchCommand(t *testing.T) {
	itest.NeedServers(t)
	t.Parallel()
	s := commandService(t)
	itest.Bench(t, s.URL, s.residue)
}

func TestHoldCommand(t *testing.T) {
	itest.NeedServers(t)
	t.Parallel()
	s := commandService(t)
	itest.Hold(t, itest.HoldTarget{URL: s.URL, Residue: s.residue, Pause: s.pause, Resume: s.resume})
}

func TestBreakCommand(t *testing.T) {
	itest.NeedServers(t)
	t.Parallel()
	s := commandService(t)
	itest.Break(t, s.URL, s.residue)
}

// commandService is one that no other test uses meanwhile.
func commandService(t *testing.T) *Service {
	s := ensembles(t).Take(t)
	s.flush(t)
	return s
}
