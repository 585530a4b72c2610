package filebackend_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
)

func TestURL(t *testing.T) {
	for _, c := range []struct{ url, dir, problem string }{
		{"file:///var/lib/locks", "/var/lib/locks", ""},
		{"file:///var/lib/locks/", "/var/lib/locks", ""},
		{"file:/var/lib/locks", "/var/lib/locks", ""},
		{"file:///a%20b/%23c", "/a b/#c", ""},
		{"file:///a/../b", "/b", ""},
		{"file://", "", "absolute path"},
		{"file:locks", "", "absolute path"},
		{"file://locks", "", "third slash"},
		{"file://localhost/locks", "", "third slash"},
		{"file://me@/locks", "", "user"},
		{"file:///locks#x", "", "fragment"},
		{"file:///locks%00", "", "NUL"},
		{"file:///locks?ttl=3s", "", `"ttl"`},
		{"file:///locks?%zz", "", "escaped"},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		dir, err := filebackend.URLDir(u)
		if dir != c.dir || (err == nil) != (c.problem == "") {
			t.Errorf("%s: directory %q, %v, want %q", c.url, dir, err, c.dir)
		}
		if err != nil && (!errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), c.problem)) {
			t.Errorf("%s: %v, want ErrOption that speaks of %s", c.url, err, c.problem)
		}
	}
}

// A URL that is refused makes no directory.
func TestURLBeforeIO(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	_, err := locker.Open(t.Context(), "file://"+dir+"?wait=1s")
	if !errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), `"wait"`) {
		t.Errorf("Open = %v, want ErrOption that names the parameter", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory was made: %v", err)
	}
}

func FuzzURL(f *testing.F) {
	f.Add("file:///var/lib/locks")
	f.Add("file://host/locks?x=%zz#f")
	f.Add("file:relative/%2e%2e")
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.Parse(raw)
		if err != nil {
			return
		}
		switch dir, err := filebackend.URLDir(u); {
		case err != nil && !errors.Is(err, locker.ErrOption):
			t.Errorf("%q: %v, want ErrOption", raw, err)
		case err == nil && (!strings.HasPrefix(dir, "/") || strings.ContainsRune(dir, 0)):
			t.Errorf("%q: directory %q", raw, dir)
		}
	})
}

// cron, systemd and a login shell set different variables. The directory must not depend on them.
func TestDefaultDir(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	if runtime.GOOS == "windows" {
		t.Setenv("USERPROFILE", home)
	}
	want, err := filebackend.DefaultDir()
	if err != nil {
		t.Fatal(err)
	}
	if rel, err := filepath.Rel(home, want); err != nil || !filepath.IsLocal(rel) || rel == "." {
		t.Errorf("DefaultDir = %s, want a directory in %s", want, home)
	}
	for _, v := range []string{"XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TMPDIR"} {
		t.Setenv(v, t.TempDir())
	}
	if dir, err := filebackend.DefaultDir(); dir != want || err != nil {
		t.Errorf("DefaultDir after a login = %s, %v, want %s", dir, err, want)
	}
	if entries, err := os.ReadDir(home); len(entries) > 0 || err != nil {
		t.Errorf("DefaultDir made %v, %v", entries, err)
	}
	t.Setenv("HOME", "relative")
	if dir, err := filebackend.DefaultDir(); err == nil && runtime.GOOS != "windows" {
		t.Errorf("DefaultDir in a relative home = %s, want an error", dir)
	}
}
