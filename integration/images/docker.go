package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// Engine returns an error unless a Docker engine answers.
func Engine(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if _, err := Docker(ctx, "version", "--format", "{{.Server.Version}}"); err != nil {
		return fmt.Errorf("no Docker engine answers, and tests on real servers need one (go test -short skips them): %w", err)
	}
	return nil
}

// Docker runs the docker command and returns its output. It repeats "pause" until all containers
// are paused, because a busy kernel may refuse to pause one for the moment.
func Docker(ctx context.Context, args ...string) (string, error) {
	out, err := docker(ctx, args...)
	for err != nil && args[0] == "pause" && strings.Contains(err.Error(), "unable to freeze") && ctx.Err() == nil {
		running, inspectErr := docker(ctx, append([]string{"inspect", "--format", "{{if not .State.Paused}}{{.Id}}{{end}}"}, args[1:]...)...)
		if inspectErr != nil {
			return "", inspectErr
		}
		args = append([]string{"pause"}, strings.Fields(running)...)
		if out, err = "", nil; len(args) > 1 {
			out, err = docker(ctx, args...)
		}
	}
	return out, err
}

func docker(ctx context.Context, args ...string) (string, error) {
	return run(exec.CommandContext(ctx, "docker", args...))
}

// has reports whether the engine has an image.
func has(ctx context.Context, ref string) bool {
	_, err := Docker(ctx, "image", "inspect", "--format", "{{.Id}}", ref)
	return err == nil
}

func pull(ctx context.Context, ref string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	_, err := Docker(ctx, "pull", "--quiet", ref)
	return err
}

// run runs a command to its end and returns its output. Its error has the first words of the
// command and the last line that it printed, because that is where tools report the cause.
func run(cmd *exec.Cmd) (string, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	text := strings.TrimSpace(string(out))
	if err == nil || errors.Is(err, exec.ErrNotFound) {
		return text, err
	}
	if stderr.Len() > 0 { // debootstrap reports errors on its standard output instead
		text = strings.TrimSpace(stderr.String())
	}
	lines := strings.Split(text, "\n")
	return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args[:min(2, len(cmd.Args))], " "), err, lines[len(lines)-1])
}
