package filebackend_test

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fencedlock/locker"
)

// overlay mounts layers over lower, as a container engine does for each container, and returns the
// directory.
func overlay(t *testing.T, lower string) string {
	t.Helper()
	base := t.TempDir()
	// The upper layer can't be on an overlay, as the temporary directory of a container may be.
	mount(t, "tmpfs", base, "tmpfs", "")
	var dirs [3]string
	for i, name := range []string{"upper", "work", "merged"} {
		dirs[i] = filepath.Join(base, name)
		mkdir(t, dirs[i], 0o755)
	}
	mount(t, "overlay", dirs[2], "overlay", "lowerdir="+lower+",upperdir="+dirs[0]+",workdir="+dirs[1])
	return dirs[2]
}

func mount(t *testing.T, source, dir, fsType, data string) {
	t.Helper()
	if err := syscall.Mount(source, dir, fsType, 0, data); err != nil {
		t.Skipf("no %s can be mounted here: %v", fsType, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount of %s: %v", dir, err)
		}
	})
}

// Two containers of one image have a directory of the same name, and use two different ones.
func TestContainersAreNotOneMachine(t *testing.T) {
	image := t.TempDir()
	mkdir(t, filepath.Join(image, "locks"), 0o700)
	for range 2 {
		dir := filepath.Join(overlay(t, image), "locks")
		for _, need := range []locker.Requirement{locker.Correctness, locker.ScopeMachine, locker.RestartTokens} {
			l, err := locker.Open(t.Context(), "file://"+dir, need)
			if err == nil {
				_ = l.Close()
			}
			if !errors.Is(err, locker.ErrGuarantee) || !strings.Contains(err.Error(), "mount a volume of the host") {
				t.Errorf("Open with %v = %v, want a refusal that says what to do", need, err)
			}
		}
		// Within one container it is a lock.
		l := open(t, dir)
		lease, err := l.Acquire(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := locker.TryAcquire(t.Context(), open(t, dir), "x"); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("a second Locker in the same container: %v, want ErrHeld", err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
