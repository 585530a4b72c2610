package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// On the layers of a container's root a lock is one of this container alone: two containers of one
// image would both run CMD. So locker run refuses it, also where nobody has named a backend.
func TestLocksInAContainerAreRefused(t *testing.T) {
	base := t.TempDir()
	mount(t, "tmpfs", base, "tmpfs", "") // layers can't be on layers, as the temporary directory may be
	var dirs [4]string
	for i, name := range []string{"lower", "upper", "work", "root"} {
		dirs[i] = filepath.Join(base, name)
		if err := os.Mkdir(dirs[i], 0o755); err != nil {
			t.Fatal(err)
		}
	}
	root := dirs[3]
	mount(t, "overlay", root, "overlay", "lowerdir="+dirs[0]+",upperdir="+dirs[1]+",workdir="+dirs[2])
	for what, env := range map[string]string{"home": "HOME=" + root, "LOCKER_URL": "LOCKER_URL=file://" + root + "/locks"} {
		code, _, stderr := runToEnd(t, environ(t, env), "run", "x", "--", "true")
		if code != exitUsage || !strings.Contains(stderr, "mount a volume of the host") || !strings.Contains(stderr, root) {
			t.Errorf("%s: code %d, stderr %q, want %d and what to do", what, code, stderr, exitUsage)
		}
	}
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
