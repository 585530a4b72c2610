//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"github.com/fencedlock/locker"
)

// trustedDir is a directory that can be trusted.
type trustedDir struct {
	dir    string // without symbolic links
	kind   fileSystem
	fsName string
}

// prepareDir creates dir if it doesn't exist, and checks that it can be trusted.
func prepareDir(dir string) (trustedDir, error) {
	refuse := func(reason string) (trustedDir, error) {
		return trustedDir{}, fmt.Errorf("%w: directory %s: %s", locker.ErrOption, dir, reason)
	}
	real, reason, err := resolveDir(dir, os.Geteuid())
	switch {
	case err != nil:
		return trustedDir{}, err
	case reason != "":
		return refuse(reason)
	}
	info, err := os.Stat(real)
	if err != nil {
		return trustedDir{}, err
	}
	kind, name, err := fileSystemOf(real)
	if err != nil {
		return trustedDir{}, &fs.PathError{Op: "statfs", Path: real, Err: err}
	}
	if reason := refusal(info.Mode(), ownerOf(info), os.Geteuid(), kind, name); reason != "" {
		return refuse(reason)
	}
	return trustedDir{real, kind, name}, nil
}

const (
	why     = "anybody who can replace a lock file can let a second holder in"
	whyPath = "anybody who can replace an element of the path can let a second holder in"
)

// refusal says why locks in a directory could not be trusted. It is empty when they can.
func refusal(mode fs.FileMode, owner, euid int, kind fileSystem, fsName string) string {
	switch {
	case !mode.IsDir():
		return "it is not a directory"
	case kind == fsNetwork:
		return fmt.Sprintf("it is on a network or cluster file system (%s), where flock(2) and the creation of "+
			"files are not reliable between machines; use a local directory (in a container mount a volume of "+
			"the host), or a backend with a server", fsName)
	case owner != euid && owner != 0:
		return fmt.Sprintf("it belongs to user %d, and must belong to user %d, who uses it, or to root: %s", owner, euid, why)
	case allMayWrite(mode): // a sticky bit doesn't stop others from creating a name's file first
		return fmt.Sprintf("all may write to it (mode %04o): %s; use a directory of your own, with mode 0700, "+
			"in which nothing is cleaned up", unixMode(mode), why)
	}
	return ""
}

// pathRefusal says why an element of the path to a directory could not be trusted: others could
// replace it, and two processes would lock in different directories. Here a sticky bit is enough,
// because the elements of the path exist already.
func pathRefusal(path string, mode fs.FileMode, owner int, trusted []int) string {
	switch {
	case !slices.Contains(trusted, owner):
		return fmt.Sprintf("%s, on the path to it, belongs to user %d, and must belong to user %d or root: %s",
			path, owner, trusted[0], whyPath)
	case mode.IsDir() && allMayWrite(mode) && mode&fs.ModeSticky == 0:
		return fmt.Sprintf("all may write to %s, on the path to it (mode %04o, not sticky): %s",
			path, unixMode(mode), whyPath)
	}
	return ""
}

func allMayWrite(mode fs.FileMode) bool { return mode.IsDir() && mode.Perm()&0o002 != 0 }

// unixMode is a mode as chmod(1) writes it.
func unixMode(mode fs.FileMode) uint32 {
	m := uint32(mode.Perm())
	for bit, unix := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if mode&bit != 0 {
			m |= unix
		}
	}
	return m
}

func ownerOf(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// makeDir makes a directory, and writes its entry in parent to the disk. It sets the mode again,
// because a umask that takes rights from the owner would make a directory that nobody can use.
func makeDir(parent, dir string) error {
	err := os.Mkdir(dir, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist): // another process was faster
		return nil
	case err != nil:
		return err
	}
	info, err := os.Lstat(dir)
	if err == nil && info.Mode().Perm() != 0o700 {
		err = os.Chmod(dir, 0o700)
	}
	return errors.Join(err, syncDir(parent))
}
