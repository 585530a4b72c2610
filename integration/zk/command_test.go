//go:build unix

package zk

import (
	"testing"

	"github.com/fencedlock/locker/integration/internal/itest"
)

func TestCommands(t *testing.T) {
	itest.Commands(t, func(t *testing.T) itest.CommandService {
		s := ensembles(t).Take(t)
		s.flush(t)
		return itest.CommandService{URL: s.URL, Residue: s.residue, Pause: s.pause, Resume: s.resume}
	})
}
