package images

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// replaceCommands replaces commands by shell scripts.
func replaceCommands(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

// A server in Go is built from its own module for the platform of the engine, without a base image
// and without a registry.
func TestFindBuildsAProgram(t *testing.T) {
	i := Image{Name: "etcd", Recipe: "etcd"}
	r, err := i.recipe()
	if err != nil {
		t.Fatal(err)
	}
	if !r.hasProgram() {
		t.Fatal("the recipe of etcd has no program")
	}
	log := filepath.Join(t.TempDir(), "log")
	replaceCommands(t, map[string]string{
		"docker": `case "$1 $3" in
"version {{.Server.Version}}") echo 1 ;;
"version {{.Server.Arch}}") echo riscv64 ;;
"build ` + r.tag() + `") echo docker $# $(ls "$4") >>` + log + ` ;;
*) exit 1 ;;
esac
`,
		"go": `echo go $GOOS $GOARCH $CGO_ENABLED $(ls) >>` + log + ` && echo x >program
`,
	})
	t.Setenv(i.Env(), "")
	got, err := i.find(t.Context(), func(string) {})
	if want := (Found{Ref: r.tag(), Built: true}); err != nil || got != want {
		t.Errorf("find = %+v, %v, want %+v", got, err, want)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	const want = "go linux riscv64 0 Dockerfile go.mod go.sum main.go\n" +
		"docker 4 Dockerfile go.mod go.sum main.go program"
	if got := strings.TrimSpace(string(text)); got != want {
		t.Errorf("commands = \n%s\nwant\n%s", got, want)
	}
}

// If the program does not compile, the error says why, and no image is built from it.
func TestFindOfAProgramThatDoesNotCompile(t *testing.T) {
	replaceCommands(t, map[string]string{
		"docker": `case "$1 $3" in
"version {{.Server.Version}}") echo 1 ;;
"version {{.Server.Arch}}") echo amd64 ;;
*) exit 1 ;;
esac
`,
		"go": "echo 'no such module' >&2; exit 1\n",
	})
	i := Image{Name: "etcd", Recipe: "etcd"}
	t.Setenv(i.Env(), "")
	if _, err := i.find(t.Context(), func(string) {}); err == nil || !strings.Contains(err.Error(), "no such module") {
		t.Errorf("find = %v, want the reason", err)
	}
}
