//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend

import (
	"fmt"

	"github.com/fencedlock/locker"
)

// fileSystem is what this package needs to know of a file system.
type fileSystem int

const (
	fsUnknown fileSystem = iota // it is not in the list
	fsLocal                     // on this machine's disks
	fsMemory                    // its content doesn't survive a reboot
	fsUnion                     // layers over others: what a container writes, and loses at its end
	fsNetwork                   // other machines use it as well
)

// guaranteesIn returns what a Locker promises whose directory is on such a file system.
func guaranteesIn(dir string, kind fileSystem, fsName string) locker.Guarantees {
	g := Guarantees()
	switch kind {
	case fsLocal:
		return g
	case fsMemory:
		g.Because = fmt.Sprintf("directory %s is on %s: it is empty after a restart of the machine", dir, fsName)
	case fsUnion:
		g.Scope = locker.ScopeProcess
		g.Because = fmt.Sprintf("directory %s is on %s, as a container's own file system is: other containers have "+
			"another directory of this name, and tokens end with the container; mount a volume of the host "+
			"there, or use a lock service", dir, fsName)
	default:
		g.Scope = locker.ScopeProcess
		g.Because = fmt.Sprintf("directory %s is on a file system that isn't known to be local (%s); use one such as ext4, "+
			"XFS or Btrfs, or a lock service", dir, fsName)
	}
	g.Fencing, g.Restart = locker.FencingUntilDataLoss, locker.RestartNothing
	return g
}
