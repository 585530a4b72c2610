package integration

import (
	"archive/zip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// "go install" makes the command from a module proxy, with the version that was asked for. A replace
// directive in go.mod, a file that a module can't contain, or a file that the command needs from
// another module would make it fail for users alone.
func TestGoInstall(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles the command and all that it needs")
	}
	const version = "v0.1.0"
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	modules, proxies, _ := strings.Cut(strings.TrimSpace(string(cache)), "\n")
	proxy := t.TempDir()
	publish(t, proxy, version)

	bin, own := t.TempDir(), t.TempDir()
	env := append(os.Environ(), "GOBIN="+bin, "GOMODCACHE="+own, "GOSUMDB=off", "GOWORK=off",
		"GOFLAGS=-modcacherw -trimpath", "CGO_ENABLED=0", // what was compiled once is in the build cache then
		"GOPROXY=file://"+proxy+",file://"+filepath.ToSlash(modules)+"/cache/download,"+proxies)
	install := exec.CommandContext(t.Context(), "go", "install", module+"/cmd/locker@"+version)
	install.Dir, install.Env = t.TempDir(), env
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("go install: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "locker"), "version").Output()
	if err != nil || !strings.HasPrefix(string(out), "locker "+version+", ") {
		t.Errorf("locker version = %q, %v, want %s", out, err, version)
	}
}

// publish writes the root module to a folder that is a module proxy, in the layout of
// https://go.dev/ref/mod#goproxy-protocol.
func publish(t *testing.T, proxy, version string) {
	t.Helper()
	dir := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(rootDir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"list":            version + "\n",
		version + ".info": fmt.Sprintf("{\"Version\": %q}\n", version),
		version + ".mod":  string(mod),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	archive, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	w := zip.NewWriter(archive)
	for _, name := range moduleFiles(t) {
		if err := add(w, module+"@"+version+"/"+name, filepath.Join(rootDir, filepath.FromSlash(name))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// moduleFiles returns the files of the root module: what git knows, without the modules below it.
func moduleFiles(t *testing.T) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = rootDir
	out, err := list.Output()
	if err != nil {
		t.Skipf("git ls-files: %v: this is no clone of the repository", err)
	}
	files := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	var others []string // the folders of other modules
	for _, name := range files {
		if path.Base(name) == "go.mod" && name != "go.mod" {
			others = append(others, path.Dir(name)+"/")
		}
	}
	if len(others) < 3 {
		t.Fatalf("modules below the root: %q, want integration, bench and campaign among them", others)
	}
	return slices.DeleteFunc(files, func(name string) bool {
		_, err := os.Lstat(filepath.Join(rootDir, filepath.FromSlash(name)))
		return err != nil || slices.ContainsFunc(others, func(dir string) bool { return strings.HasPrefix(name, dir) })
	})
}

func add(w *zip.Writer, name, file string) error {
	from, err := os.Open(file)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := w.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return err
}
