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

func TestPathRefusal(t *testing.T) {
	const me, other, root, top = 1000, 1001, 0, 65534
	trusted := []int{me, root, top}
	for _, c := range []struct {
		what    string
		mode    fs.FileMode
		owner   int
		problem string // none: accepted
	}{
		{"root's", fs.ModeDir | 0o755, root, ""},
		{"mine", fs.ModeDir | 0o755, me, ""},
		{"of the owner of /", fs.ModeDir | 0o755, top, ""},
		{"my group may write", fs.ModeDir | 0o775, me, ""},
		{"like /tmp", fs.ModeDir | fs.ModeSticky | 0o777, root, ""},
		{"all may write", fs.ModeDir | 0o777, root, "mode 0777, not sticky"},
		{"somebody's", fs.ModeDir | 0o755, other, "user 1001"},
		{"my link", fs.ModeSymlink | 0o777, me, ""},
		{"somebody's link", fs.ModeSymlink | 0o777, other, "user 1001"},
	} {
		reason := filebackend.PathRefusal("/some/way", c.mode, c.owner, trusted)
		if (reason == "") != (c.problem == "") || !strings.Contains(reason, c.problem) {
			t.Errorf("%s: refusal %q, want one that says %q", c.what, reason, c.problem)
		}
	}
}

// A link that is changed while a Locker is open doesn't lead the Locker elsewhere: it would get
// locks that are held in the first directory.
func TestChangedLink(t *testing.T) {
	base := t.TempDir()
	first, second, link := filepath.Join(base, "first"), filepath.Join(base, "second"), filepath.Join(base, "link")
	mkdir(t, first, 0o700)
	mkdir(t, second, 0o700)
	symlink(t, "first", link)
	l := open(t, filepath.Join(link, "locks"))
	lease, err := open(t, filepath.Join(first, "locks")).Acquire(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	symlink(t, "second", link)
	mkdir(t, filepath.Join(second, "locks"), 0o700)
	if _, err := locker.TryAcquire(t.Context(), l, "x"); !errors.Is(err, locker.ErrHeld) {
		t.Errorf("Acquire after the link was changed = %v, want ErrHeld as before", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestPathsToOneDirectory(t *testing.T) {
	base := t.TempDir()
	mkdir(t, filepath.Join(base, "a"), 0o700)
	symlink(t, filepath.Join(base, "a"), filepath.Join(base, "absolute"))
	symlink(t, "absolute/../absolute", filepath.Join(base, "relative"))
	symlink(t, "loop", filepath.Join(base, "loop"))
	holder, err := open(t, filepath.Join(base, "a", "b", "c")).Acquire(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"absolute/b/c", "relative/b/c", "a/./b//c", "a/b/../b/c"} {
		if _, err := locker.TryAcquire(t.Context(), open(t, base+"/"+path), "x"); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("%s is not the same directory: %v", path, err)
		}
	}
	if _, err := filebackend.New(filepath.Join(base, "loop", "x")); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a link to itself: %v, want ELOOP", err)
	}
	if err := holder.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// A user that may write to a directory on the path can replace the next element.
func TestPathThatOthersCanReplace(t *testing.T) {
	base := t.TempDir()
	open, shared := filepath.Join(base, "open"), filepath.Join(base, "shared")
	mkdir(t, open, 0o777)
	mkdir(t, shared, 0o777|fs.ModeSticky)
	locks := filepath.Join(base, "locks")
	mkdir(t, locks, 0o700)
	refused(t, filepath.Join(open, "locks"), open)
	if _, err := os.Stat(filepath.Join(open, "locks")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory was made on a path that can't be trusted: %v", err)
	}
	l, err := filebackend.New(filepath.Join(shared, "locks"))
	if err != nil {
		t.Fatalf("a directory of the user's own in one like /tmp: %v", err)
	}
	_ = l.Close()

	const somebody = 54321
	symlink(t, locks, filepath.Join(shared, "theirs"))
	mkdir(t, filepath.Join(shared, "dir"), 0o755)
	for _, name := range []string{"theirs", "dir"} {
		if err := os.Lchown(filepath.Join(shared, name), somebody, -1); err != nil {
			t.Skip("only root can make what belongs to somebody else: ", err)
		}
	}
	refused(t, filepath.Join(shared, "theirs"), "54321")
	refused(t, filepath.Join(shared, "dir", "locks"), "54321")
}

func refused(t *testing.T, dir, says string) {
	t.Helper()
	l, err := filebackend.New(dir)
	if err == nil {
		_ = l.Close()
	}
	if !errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), says) {
		t.Errorf("New(%s) = %v, want ErrOption that names %s", dir, err, says)
	}
}

func mkdir(t *testing.T, dir string, mode fs.FileMode) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}
