//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
)

// replacements are what people do to files.
var replacements = map[string]func(path string) error{
	"removed": os.Remove,
	"renamed": func(path string) error { return os.Rename(path, path+".old") },
	"replaced": func(path string) error {
		if err := os.WriteFile(path+".new", filebackend.Encode(0, "", 1), 0o600); err != nil {
			return err
		}
		return os.Rename(path+".new", path)
	},
}

// The holder of a file that was replaced notices by Renew, and doesn't affect a successor.
func TestReplacedWhileHeld(t *testing.T) {
	for what, replace := range replacements {
		dir := t.TempDir()
		a, b := open(t, dir), open(t, dir)
		lease := acquire(t, a, "x")
		path := filepath.Join(dir, filebackend.FileName("x", 0))
		if err := replace(path); err != nil {
			t.Fatal(err)
		}
		successor := acquire(t, b, "x")
		if successor.Token() <= lease.Token() {
			t.Errorf("%s: token %d after %d", what, successor.Token(), lease.Token())
		}
		if err := lease.Renew(t.Context()); !errors.Is(err, locker.ErrLost) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: Renew = %v, want ErrLost that names the file", what, err)
		}
		if err := lease.Err(); !errors.Is(err, locker.ErrLost) {
			t.Errorf("%s: Err = %v, want ErrLost", what, err)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, locker.ErrLost) {
			t.Errorf("%s: Release = %v, want ErrLost", what, err)
		}
		if _, err := locker.TryAcquire(t.Context(), open(t, dir), "x"); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("%s: TryAcquire next to the successor = %v, want ErrHeld", what, err)
		}
		if err := successor.Renew(t.Context()); err != nil {
			t.Errorf("%s: the successor's Renew = %v", what, err)
		}
	}
}
