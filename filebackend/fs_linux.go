package filebackend

import (
	"fmt"
	"syscall"
)

// With O_DSYNC the data is on the disk when the write returns. With a separate sync, a process that
// is killed between the two would leave a record that others can read, but that a crash of the
// machine could undo.
const syncFlag = syscall.O_DSYNC

// magics are the known f_type values of statfs(2), from linux/magic.h and the file systems' own
// sources. A file system that isn't listed doesn't count as local. FUSE, which runs in a user's
// process, may be anything, and is usually a network file system.
var magics = map[uint32]struct {
	name string
	kind fileSystem
}{
	0xef53:     {"ext4", fsLocal}, // ext2 and ext3 as well
	0x58465342: {"XFS", fsLocal},
	0x9123683e: {"Btrfs", fsLocal},
	0x2fc12fc1: {"ZFS", fsLocal},
	0xf2f52010: {"F2FS", fsLocal},
	0xca451a4e: {"bcachefs", fsLocal},
	0x3153464a: {"JFS", fsLocal},
	0x3434:     {"NILFS", fsLocal},
	0x52654973: {"ReiserFS", fsLocal},
	0x24051905: {"UBIFS", fsLocal},
	0x72b6:     {"JFFS2", fsLocal},
	0x7366746e: {"NTFS", fsLocal}, // the kernel's own

	0x01021994: {"tmpfs", fsMemory},
	0x858458f6: {"ramfs", fsMemory},

	0x794c7630: {"overlayfs", fsUnion},
	0x61756673: {"aufs", fsUnion},

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
	0x61636673: {"ACFS", fsNetwork},
	0xbeefdead: {"StorNext", fsNetwork},
	0x013111a8: {"IBRIX", fsNetwork},
	0xa501fcf5: {"VxFS", fsNetwork}, // which may be a cluster's
	0x786f4256: {"VirtualBox shared folder", fsNetwork},
	0xbacbacbc: {"VMware shared folder", fsNetwork},
	0x7c7c6673: {"Parallels shared folder", fsNetwork},
}

func fileSystemOf(dir string) (fileSystem, string, error) {
	var st syscall.Statfs_t
	err := syscall.Statfs(dir, &st)
	for err == syscall.EINTR {
		err = syscall.Statfs(dir, &st)
	}
	kind, name := kindOf(uint32(st.Type)) // int32 on some machines
	return kind, name, err
}

// kindOf names an unknown file system by its number.
func kindOf(magic uint32) (fileSystem, string) {
	known, ok := magics[magic]
	if !ok {
		return fsUnknown, fmt.Sprintf("statfs type %#x", magic)
	}
	return known.kind, known.name
}
