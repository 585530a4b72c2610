//go:build darwin || freebsd || openbsd || dragonfly

package filebackend_test

import (
	"testing"

	"github.com/fencedlock/locker/filebackend"
)

func TestFileSystemKinds(t *testing.T) {
	const local, others = 0x1000, 0x4
	for _, c := range []struct {
		flags uint64
		name  string
		want  filebackend.FileSystem
	}{
		{local | others, "apfs", filebackend.Local},
		{local, "ufs", filebackend.Local},
		{local, "tmpfs", filebackend.Memory},
		{local, "mfs", filebackend.Memory},
		{local, "unionfs", filebackend.Union},
		{others, "nfs", filebackend.Network},
		{0, "smbfs", filebackend.Network},
		{0, "tmpfs", filebackend.Network},
		{local, "fuse", filebackend.Network},
		{local, "fusefs", filebackend.Network},
		{local, "fuse.sshfs", filebackend.Network},
		{local, "macfuse", filebackend.Network},
	} {
		if got := filebackend.KindOf(c.flags, c.name); got != c.want {
			t.Errorf("%s with flags %#x is %v, want %v", c.name, c.flags, got, c.want)
		}
	}
}
