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

// place is a directory that can be trusted.
type place struct {
	dir    string // without symbolic links
	kind   fileSystem
	fsName string
}

// prepareDir makes dir where it doesn't exist and checks that it can be trusted.
func prepareDir(dir string) (place, error) {
	refuse := func(reason string) (place, error) {
		return place{}, fmt.Errorf("%w: directory %s: %s", locker.ErrOption, dir, reason)
	}
	real, reason, err := follow(dir, os.Geteuid())
	switch {
	case err != nil:
		return place{}, err
	case reason != "":
		return refuse(reason)
	}
	info, err := os.Stat(real)
	if err != nil {
		return place{}, err
	}
	kind, name, err := fileSystemOf(real)
	if err != nil {
		return place{}, &fs.PathError{Op: "statfs", Path: real, Err: err}
	}
	if reason := refusal(info.Mode(), ownerOf(info), os.Geteuid(), kind, name); reason != "" {
		return refuse(reason)
	}
	return place{real, kind, name}, nil
}

const why = "anybody who can replace a lock file can break the lock"

// refusal says why locks in a directory could not be trusted. It is empty when they can.
func refusal(mode fs.FileMode, owner, euid int, kind fileSystem, fsName string) string {
	switch {
	case !mode.IsDir():
		return "it is not a directory"
	case kind == fsNetwork:
		return fmt.Sprintf("it is on a network or cluster file system (%s), where flock(2) and the creation of files are not "+
			"reliable between machines; use a local directory (in a container mount a volume of the host), or a backend with a server", fsName)
	case owner != euid && owner != 0:
		return fmt.Sprintf("it belongs to user %d, and must be of user %d, who uses it, or of root: %s", owner, euid, why)
	case allMayWrite(mode): // a sticky bit doesn't keep others from making the file of a name first
		return fmt.Sprintf("all may write to it (mode %04o): %s; use a directory of your own, with mode 0700, where nothing is cleaned up", unixMode(mode), why)
	}
	return ""
}

// wayRefusal says why something on the way to a directory could not be trusted: others could turn the way, and two
// processes would lock in different directories. Here a sticky bit is enough, because what the way needs exists.
func wayRefusal(path string, mode fs.FileMode, owner int, trusted []int) string {
	switch {
	case !slices.Contains(trusted, owner):
		return fmt.Sprintf("%s, on the way to it, belongs to user %d, and must be of user %d or of root: anybody who can turn the way "+
			"can break the lock", path, owner, trusted[0])
	case mode.IsDir() && allMayWrite(mode) && mode&fs.ModeSticky == 0:
		return fmt.Sprintf("all may write to %s, on the way to it (mode %04o, not sticky): anybody who can turn the way can break the lock",
			path, unixMode(mode))
	}
	return ""
}

func allMayWrite(mode fs.FileMode) bool { return mode.IsDir() && mode.Perm()&0o002 != 0 }

// unixMode is a mode as chmod(1) has it.
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

// makeDir makes a directory, and puts its entry in parent on the disk. A umask that takes rights from the owner as well
// would make one that nobody can use.
func makeDir(parent, dir string) error {
	err := os.Mkdir(dir, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist): // somebody was faster
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
