//go:build unix

package integration

import (
	"errors"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// The suite doesn't test backends that can't report the current token. This test and the docs say
// which backends can.
func TestCurrent(t *testing.T) {
	itest.NeedServers(t)
	for _, tc := range []struct {
		backend string
		offered bool
	}{
		{"redis", true},
		{"redlock", false},
		{"etcd", true},
		{"zookeeper", true},
		{"postgres", false},
	} {
		t.Run(tc.backend, func(t *testing.T) {
			l, err := locker.Open(t.Context(), serviceURL(t, tc.backend))
			if err != nil {
				t.Fatal(err)
			}
			step.CloseAtEnd(t, l)
			name := step.LockName(t)
			lease := step.Acquire(t, l, name)
			token, err := locker.CurrentToken(t.Context(), l, name, 0)
			step.Release(t, lease)
			switch {
			case tc.offered && (err != nil || token != lease.Token()):
				t.Errorf("CurrentToken = %v, %v, want %v", token, err, lease.Token())
			case !tc.offered && !errors.Is(err, errors.ErrUnsupported):
				t.Errorf("CurrentToken = %v, %v, want ErrUnsupported", token, err)
			}
		})
	}
}
