package filebackend_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fencedlock/locker/filebackend"
)

// The values are as in statfs(2).
func TestFileSystemKinds(t *testing.T) {
	for magic, want := range map[uint32]filebackend.FileSystem{
		0xef53:     filebackend.Local,   // ext4
		0x58465342: filebackend.Local,   // XFS
		0x9123683e: filebackend.Local,   // Btrfs
		0x2fc12fc1: filebackend.Local,   // ZFS
		0xf2f52010: filebackend.Local,   // F2FS
		0x794c7630: filebackend.Union,   // overlay
		0x61756673: filebackend.Union,   // aufs
		0xf15f:     filebackend.Unknown, // eCryptfs, over whatever
		0x12345678: filebackend.Unknown,
		0x01021994: filebackend.Memory,
		0x858458f6: filebackend.Memory,
		0x6969:     filebackend.Network, // NFS
		0xff534d42: filebackend.Network, // CIFS
		0xfe534d42: filebackend.Network, // SMB 2
		0x517b:     filebackend.Network, // SMB
		0x01021997: filebackend.Network, // 9P
		0x65735546: filebackend.Network, // FUSE
		0x00c36400: filebackend.Network, // Ceph
		0x0bd00bd0: filebackend.Network, // Lustre
	} {
		got, name := filebackend.KindOf(magic)
		if got != want || name == "" {
			t.Errorf("file system %#x is %v (%s), want %v", magic, got, name, want)
		}
		if number := fmt.Sprintf("%#x", magic); want == filebackend.Unknown && !strings.Contains(name, number) {
			t.Errorf("file system %#x is called %q, want its number in it", magic, name)
		}
	}
}
