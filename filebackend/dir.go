//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/fencedlock/locker"
)

// fileSystem is what matters of a file system.
type fileSystem int

const (
	fsLocal   fileSystem = iota
	fsMemory             // its content doesn't survive a reboot
	fsNetwork            // other machines use it as well
)

// prepareDir makes dir where it doesn't exist and checks that it can be trusted. durable tells whether it survives a
// reboot.
func prepareDir(dir string) (durable bool, err error) {
	if err := makeDir(dir); err != nil {
		return false, err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return false, err
	}
	kind, name, err := fileSystemOf(dir)
	if err != nil {
		return false, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	if reason := refusal(info.Mode(), owner, os.Geteuid(), kind, name); reason != "" {
		return false, fmt.Errorf("%w: directory %s: %s", locker.ErrOption, dir, reason)
	}
	return kind != fsMemory, nil
}

// makeDir is [os.MkdirAll], and puts what it makes on the disk.
func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeDir(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// refusal says why locks in a directory could not be trusted. It is empty when they can.
func refusal(mode fs.FileMode, owner, euid int, kind fileSystem, fsName string) string {
	const why = "whoever can replace a lock file can break the lock"
	switch {
	case !mode.IsDir():
		return "it is not a directory"
	case kind == fsNetwork:
		return fmt.Sprintf("it is on a network or cluster file system (%s), where flock(2) and the creation of files are not "+
			"reliable between machines; use a local directory, or a backend with a server", fsName)
	case owner != euid && owner != 0:
		return fmt.Sprintf("it belongs to user %d, and must be of user %d, who uses it, or of root: %s", owner, euid, why)
	case mode.Perm()&0o002 != 0: // a sticky bit doesn't keep others from making the file of a name first
		return fmt.Sprintf("all may write to it (mode %04o): %s", mode.Perm(), why)
	}
	return ""
}
