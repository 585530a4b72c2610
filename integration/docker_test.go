//go:build unix

package integration

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/fencedlock/locker/integration/images"
)

// The image of the command runs as a user without rights, on a file system that can't be written, and its
// program needs nothing of the image: it takes a lock and starts itself as the command.
func TestDockerImage(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it builds an image")
	}
	if err := images.Engine(t.Context()); err != nil {
		t.Skip("no Docker engine: make docker isn't tested")
	}
	tag := "localhost/locker/command:test-" + strconv.Itoa(os.Getpid())
	build := exec.CommandContext(t.Context(), "make", "docker", "DOCKER_TAG="+tag)
	build.Dir = rootDir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("make docker: %v\n%s", err, out)
	}
	defer func() {
		if _, err := images.Docker(context.WithoutCancel(t.Context()), "image", "rm", tag); err != nil {
			t.Error(err)
		}
	}()

	user, err := images.Docker(t.Context(), "image", "inspect", "--format", "{{.Config.User}}", tag)
	if err != nil || strings.TrimSpace(user) != "65532:65532" {
		t.Errorf("the image's user is %q, %v, want 65532:65532", user, err)
	}
	out, err := images.Docker(t.Context(), "run", "--rm", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--network=none",
		"--env=LOCKER_URL=file:///dev/shm/locks", tag, "run", "--no-wait", "report", "--", "/locker", "matrix")
	if err != nil || !strings.Contains(out, "postgres") {
		t.Errorf("locker run in the image: %v\n%s", err, out)
	}
}
