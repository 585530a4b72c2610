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

// source is the suffix of the files of a Go program in a recipe: main.go.txt is the main.go of
// another module. With their real names, Go would treat them as part of this module.
const source = ".txt"

// hasProgram reports whether a recipe has a Go program. Its Dockerfile finds the binary as
// "program".
func (r recipe) hasProgram() bool {
	_, err := fs.Stat(r.files, "go.mod"+source)
	return err == nil
}

// buildProgram builds the program of the recipe that was copied to dir, for the platform of the
// Docker engine. It needs no registry and no root, only Go and the modules that go.sum names.
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
