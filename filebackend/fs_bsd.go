//go:build darwin || freebsd || openbsd || dragonfly

package filebackend

import (
	"strings"
	"syscall"
)

// O_DSYNC is missing on some of these systems, and doesn't reach the disk's platter on macOS.
// [os.File.Sync] does.
const syncFlag = 0

func fileSystemOf(dir string) (fileSystem, string, error) {
	var st syscall.Statfs_t
	err := syscall.Statfs(dir, &st)
	for err == syscall.EINTR {
		err = syscall.Statfs(dir, &st)
	}
	if err != nil {
		return 0, "", err
	}
	flags, chars := mountOf(&st)
	var name []byte
	for _, c := range chars {
		if c == 0 {
			break
		}
		name = append(name, byte(c))
	}
	return kindOf(flags, string(name)), string(name), nil
}

// kindOf decides by MNT_LOCAL, which the kernel sets for file systems that no other machine uses. Some
// kernels also set it for FUSE, which runs in a user's process, may be anything, and is usually a
// network file system.
func kindOf(flags uint64, name string) fileSystem {
	const mntLocal = 0x1000 // missing in package syscall
	switch {
	case flags&mntLocal == 0, strings.Contains(name, "fuse"):
		return fsNetwork
	case name == "tmpfs" || name == "mfs":
		return fsMemory
	case name == "unionfs":
		return fsUnion
	}
	return fsLocal
}
