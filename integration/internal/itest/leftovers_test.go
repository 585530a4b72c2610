//go:build unix

package itest

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/fencedlock/locker/integration/images"
)

// deadRun is the owner of a run that has ended.
func deadRun(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	return host + "/" + strconv.Itoa(cmd.Process.Pid)
}

func TestAlive(t *testing.T) {
	for owner, want := range map[string]bool{
		me():            true,
		deadRun(t):      false,
		"elsewhere/1":   true, // nobody here can tell
		"elsewhere/x":   true,
		"no owner":      true,
		me() + "/other": true,
	} {
		if got := alive(owner); got != want {
			t.Errorf("alive(%q) = %v, want %v", owner, got, want)
		}
	}
}

// Containers of a killed run are removed by the next run. Containers of a run that is still running
// are not.
func TestLeftoversAreRemoved(t *testing.T) {
	NeedServers(t)
	mine, err := Start(t.Context(), Spec{Image: "redis", Args: []string{"sleep", "infinity"}})
	if err != nil {
		t.Fatal(err)
	}
	image, err := images.Find(t.Context(), "redis", func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	left, err := images.Docker(t.Context(), "run", "--detach", "--label", owner+"="+deadRun(t), image.Ref, "sleep", "infinity")
	if err != nil {
		t.Fatal(err)
	}
	if err := removeLeftovers(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := images.Docker(t.Context(), "ps", "--all", "--quiet", "--no-trunc")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(all, left) {
		t.Errorf("the container of a run that has ended is still there")
	}
	if !strings.Contains(all, mine.ID) {
		t.Errorf("the container of this run is gone")
	}
}

// The containers that were started for one test are removed when it has ended.
func TestStartedIsRemoved(t *testing.T) {
	NeedServers(t)
	var c *Container
	t.Run("test", func(t *testing.T) {
		c = Started(t, "redis", func(ctx context.Context, image string) (*Container, error) {
			return Start(ctx, Spec{Image: image, Args: []string{"sleep", "infinity"}})
		})
	})
	all, err := images.Docker(t.Context(), "ps", "--all", "--quiet", "--no-trunc")
	if err != nil {
		t.Fatal(err)
	}
	if c == nil || strings.Contains(all, c.ID) {
		t.Errorf("the container of a test that has ended is still there")
	}
}
