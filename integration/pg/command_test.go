//go:build unix

package pg

import (
	"testing"

	"github.com/fencedlock/locker/integration/internal/itest"
)

func TestBenchCommand(t *testing.T) {
	itest.NeedServers(t)
	t.Parallel()
	s := taken(t)
	itest.Bench(t, s.URL, s.residue)
}

func TestHoldCommand(t *testing.T) {
	itest.NeedServers(t)
	t.Parallel()
	s := taken(t)
	itest.Hold(t, itest.HoldTarget{URL: s.URL, Residue: s.residue, Pause: s.pause, Resume: s.resume})
}
