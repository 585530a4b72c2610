//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
)

func TestRefusal(t *testing.T) {
	const me, other, root = 1000, 1001, 0
	for _, c := range []struct {
		what        string
		mode        fs.FileMode
		owner, euid int
		kind        filebackend.FileSystem
		problem     string // none: accepted
	}{
		{"mine", fs.ModeDir | 0o700, me, me, filebackend.Local, ""},
		{"mine, all may read", fs.ModeDir | 0o755, me, me, filebackend.Local, ""},
		{"mine, my group may write", fs.ModeDir | 0o770, me, me, filebackend.Local, ""},
		{"in memory", fs.ModeDir | 0o700, me, me, filebackend.Memory, ""},
		{"root's", fs.ModeDir | 0o770, root, me, filebackend.Local, ""},
		{"root's, for root", fs.ModeDir | 0o700, root, root, filebackend.Local, ""},
		{"somebody's", fs.ModeDir | 0o777, other, me, filebackend.Local, "user 1001"},
		{"somebody's, for root", fs.ModeDir | 0o700, other, root, filebackend.Local, "user 1001"},
		{"all may write", fs.ModeDir | 0o702, me, me, filebackend.Local, "all may write"},
		{"like /tmp", fs.ModeDir | fs.ModeSticky | 0o777, root, me, filebackend.Local, "(mode 1777)"},
		{"with a way out", fs.ModeDir | fs.ModeSticky | 0o777, root, me, filebackend.Local, "use a directory of your own"},
		{"an emptyDir of Kubernetes", fs.ModeDir | 0o777, root, me, filebackend.Local, "(mode 0777)"},
		{"network", fs.ModeDir | 0o700, me, me, filebackend.Network, "(somefs)"},
		{"FUSE, as the root of a container may be", fs.ModeDir | 0o700, me, me, filebackend.Network, "mount a volume of the host"},
		{"a file", 0o600, me, me, filebackend.Local, "not a directory"},
	} {
		reason := filebackend.Refusal(c.mode, c.owner, c.euid, c.kind)
		if (reason == "") != (c.problem == "") || !strings.Contains(reason, c.problem) {
			t.Errorf("%s: refusal %q, want one that says %q", c.what, reason, c.problem)
		}
	}
}

func TestRefusedDirectory(t *testing.T) {
	base := t.TempDir()
	file, open := filepath.Join(base, "file"), filepath.Join(base, "open")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", file, open} {
		_, err := filebackend.New(dir)
		var wrapped *locker.Error
		if !errors.Is(err, locker.ErrOption) || !errors.As(err, &wrapped) || wrapped.Op != "open" || !strings.Contains(err.Error(), dir) {
			t.Errorf("New(%q) = %v, want ErrOption with the reason", dir, err)
		}
	}
}

func TestDirectoryIsMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b", "locks")
	l, err := locker.Open(t.Context(), "file://"+strings.ReplaceAll(dir, " ", "%20"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	acquireRelease(t, l, "x")
	for path, want := range map[string]fs.FileMode{
		filepath.Dir(dir): 0o700,
		dir:               0o700,
		filepath.Join(dir, filebackend.FileName("x", 0)): 0o600,
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("mode of %s = %o, want %o", path, info.Mode().Perm(), want)
		}
	}
	if entries, err := os.ReadDir(dir); len(entries) != 1 || err != nil {
		t.Errorf("the directory has %v, %v, want one file", entries, err)
	}
}

// What the file system doesn't keep, or other containers don't see, isn't promised, and the Locker
// says why.
func TestGuaranteesFollowFileSystem(t *testing.T) {
	for _, c := range []struct {
		kind     filebackend.FileSystem
		scope    locker.Scope
		why      string
		promised bool
	}{
		{filebackend.Local, locker.ScopeMachine, "", true},
		{filebackend.Memory, locker.ScopeMachine, "empty after a restart", false},
		{filebackend.Union, locker.ScopeProcess, "mount a volume of the host", false},
		{filebackend.Unknown, locker.ScopeProcess, "isn't known to be local (somefs)", false},
	} {
		g := filebackend.GuaranteesIn("/locks", c.kind, "somefs")
		durable := g.Fencing == locker.FencingDurable && g.Restart == locker.RestartTokens
		if g.Scope != c.scope || durable != c.promised || !strings.Contains(g.Because, c.why) || (g.Because == "") != c.promised {
			t.Errorf("kind %d: guarantees %v", c.kind, g)
		}
		err := locker.Require(g, locker.Correctness)
		if (err == nil) != c.promised || err != nil && (!strings.Contains(err.Error(), c.why) || !strings.Contains(err.Error(), "/locks")) {
			t.Errorf("kind %d: Correctness: %v", c.kind, err)
		}
	}
	for _, base := range []string{".", os.TempDir(), "/dev/shm"} {
		dir, err := os.MkdirTemp(base, "locks")
		if err != nil {
			continue // not every system has /dev/shm
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		kind, name, err := filebackend.FileSystemOf(dir)
		if err != nil {
			t.Fatal(err)
		}
		if kind == filebackend.Network {
			t.Fatalf("%s is on a network file system (%s); run the tests on a local one", base, name)
		}
		if got, want := open(t, dir).Guarantees(), filebackend.GuaranteesIn(dir, kind, name); got != want {
			t.Errorf("%s is on %q: guarantees\n%v, want\n%v", base, name, got, want)
		}
	}
}

// A umask of a hardened service must not make files and directories that nobody can use.
func TestUmask(t *testing.T) {
	base := t.TempDir()
	defer syscall.Umask(syscall.Umask(0o777))
	dir := filepath.Join(base, "made", "locks")
	acquireRelease(t, open(t, dir), "x")
	for path, want := range map[string]fs.FileMode{
		filepath.Dir(dir): 0o700,
		dir:               0o700,
		filepath.Join(dir, filebackend.FileName("x", 0)): 0o600,
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("mode of %s = %o, want %o", path, info.Mode().Perm(), want)
		}
	}
}

// A user that may not replace the directory may not redirect a lock's file either.
func TestSymbolicLinkRefused(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Symlink(elsewhere, filepath.Join(dir, filebackend.FileName("x", 0))); err != nil {
		t.Fatal(err)
	}
	if _, err := locker.TryAcquire(t.Context(), open(t, dir), "x"); err == nil || errors.Is(err, locker.ErrHeld) {
		t.Errorf("Acquire through a symbolic link = %v, want an error", err)
	}
	if _, err := os.Stat(elsewhere); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was made at the link's target: %v", err)
	}
}
