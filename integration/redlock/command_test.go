//go:build unix

package redlock

import (
	"context"
	"testing"
	"time"

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
	s := commandServices(t).Take(t)
	s.clear(t)
	return s
}

// commandServices allow longer leases than the others.
var commandServices = itest.LazyPool("redis", func(ctx context.Context, image string) (*Service, error) {
	return StartFor(ctx, image, 5, time.Minute)
})
