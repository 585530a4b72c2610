package images

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// source marks the files of a Go program in a recipe, because Go takes them for its own by their real names: main.go.txt
// is main.go of a module of its own.
const source = ".txt"

// hasProgram tells whether a recipe has a Go program, whose Dockerfile finds it as "program".
func (r recipe) hasProgram() bool {
	_, err := fs.Stat(r.files, "go.mod"+source)
	return err == nil
}

// buildProgram builds the program of the recipe that was copied to dir, for the machine that the engine runs on. It needs
// nothing from a registry, and no root: only Go, and the modules that go.sum names.
func (r recipe) buildProgram(ctx context.Context, dir string) error {
	arch, err := Docker(ctx, "version", "--format", "{{.Server.Arch}}")
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"+source))
	if err != nil {
		return err
	}
	for _, file := range files {
		err = errors.Join(err, os.Rename(file, strings.TrimSuffix(file, source)))
	}
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", "program", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOWORK=off", "GOFLAGS=-mod=readonly")
	_, err = run(cmd)
	return err
}
