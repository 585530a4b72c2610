//go:build unix

package itest

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance"
)

// commandTTL is a TTL that every service serves, and in which a busy machine renews a lease.
const commandTTL = 5 * time.Second

// CommandService is a service for the command, and of one test alone.
type CommandService struct {
	URL           string
	Residue       func(conformance.T) string // what is left on the servers; empty: nothing
	Pause, Resume func(conformance.T)
}

// Commands tests the commands that are the same on each service.
func Commands(t *testing.T, take func(t *testing.T) CommandService) {
	NeedServers(t)
	t.Parallel()
	binary := buildCommand(t)
	for name, test := range map[string]func(t *testing.T, binary string, s CommandService){
		"bench": bench, "hold": hold, "break": breakLock,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, binary, take(t))
		})
	}
}

// buildCommand builds cmd/locker for a package one folder below integration.
func buildCommand(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "locker")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/locker")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// wantResidue fails unless a service has nothing left within a time.
func wantResidue(t *testing.T, residue func(conformance.T) string, within time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	err := Until(ctx, func(context.Context) error {
		if left := residue(t); left != "" {
			return errors.New(left)
		}
		return nil
	})
	if err != nil {
		t.Errorf("left: %v", err)
	}
}
