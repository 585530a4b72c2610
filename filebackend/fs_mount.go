//go:build darwin || freebsd || dragonfly

package filebackend

import "syscall"

func mountOf(st *syscall.Statfs_t) (flags uint64, name [16]int8) {
	return uint64(st.Flags), st.Fstypename
}
