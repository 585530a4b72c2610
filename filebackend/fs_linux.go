package filebackend

import "syscall"

// With O_DSYNC the data is on the disk when the write returns. Without a moment between writing and syncing, a process
// that is killed leaves no record that others can read but a crash of the machine could still undo.
const syncFlag = syscall.O_DSYNC

// magics are the f_type values of statfs(2) that matter; linux/magic.h and the file systems' own sources have them.
// What runs in a user's process (FUSE) may be anything, and is a network file system as a rule.
var magics = map[uint32]struct {
	name string
	kind fileSystem
}{
	0x01021994: {"tmpfs", fsMemory},
	0x858458f6: {"ramfs", fsMemory},

	0x6969:     {"NFS", fsNetwork},
	0x517b:     {"SMB", fsNetwork},
	0xff534d42: {"CIFS", fsNetwork},
	0xfe534d42: {"SMB2", fsNetwork},
	0x564c:     {"NCP", fsNetwork},
	0x5346414f: {"AFS", fsNetwork},
	0x6b414653: {"AFS", fsNetwork},
	0x73757245: {"Coda", fsNetwork},
	0x00c36400: {"Ceph", fsNetwork},
	0x01021997: {"9P", fsNetwork},
	0x65735546: {"FUSE", fsNetwork},
	0x0bd00bd0: {"Lustre", fsNetwork},
	0x01161970: {"GFS2", fsNetwork},
	0x7461636f: {"OCFS2", fsNetwork},
	0x47504653: {"GPFS", fsNetwork},
	0x19830326: {"BeeGFS", fsNetwork},
	0x20030528: {"OrangeFS", fsNetwork},
	0xaad7aaea: {"PanFS", fsNetwork},
	0x786f4256: {"VirtualBox shared folder", fsNetwork},
	0xbacbacbc: {"VMware shared folder", fsNetwork},
}

func fileSystemOf(dir string) (fileSystem, string, error) {
	var st syscall.Statfs_t
	err := syscall.Statfs(dir, &st)
	for err == syscall.EINTR {
		err = syscall.Statfs(dir, &st)
	}
	known := magics[uint32(st.Type)] // an int32 on some machines, on which the larger ones are negative
	return known.kind, known.name, err
}
