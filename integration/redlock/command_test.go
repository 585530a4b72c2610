//go:build unix

package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/fencedlock/locker/integration/internal/itest"
)

func TestCommands(t *testing.T) {
	// Its servers allow longer leases than the others.
	services := itest.LazyPool("redis", func(ctx context.Context, image string) (*Service, error) {
		return StartFor(ctx, image, 5, time.Minute)
	})
	itest.Commands(t, func(t *testing.T) itest.CommandService {
		s := services(t).Take(t)
		s.clear(t)
		return itest.CommandService{URL: s.URL, Residue: s.residue, Pause: s.pause, Resume: s.resume}
	})
}
