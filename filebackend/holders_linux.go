package filebackend

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// holders are the processes that hold locks on files of one device.
type holders struct {
	pids     map[uint64][]int        // by the number of the file, the last one that was read at the end
	repeated bool                    // several files of the device may have one number
	locked   map[int]map[fileID]bool // what processes have locked, as their descriptors show it; nil: they can't be seen
}

type fileID struct{ device, number uint64 }

func fileIDOf(info fs.FileInfo) fileID {
	st := info.Sys().(*syscall.Stat_t)
	return fileID{uint64(st.Dev), st.Ino} //nolint:unconvert // it has 32 bits on some machines
}

// repeating are the file systems whose subvolumes have files with the same numbers in the table, and are
// devices of their own for stat. (On bcachefs and NILFS stat doesn't distinguish them either.)
var repeating = []string{"Btrfs"}

func newHolders(fsName string) holders {
	return holders{
		pids: make(map[uint64][]int), repeated: slices.Contains(repeating, fsName), locked: make(map[int]map[fileID]bool),
	}
}

// add takes in the table. A line says
//
//	1: FLOCK  ADVISORY  WRITE 4711 fe:00:762127 0 EOF
//
// and the line of a process that waits has an arrow before the kind.
func (h holders) add(table, device string) {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[1] != "FLOCK" {
			continue
		}
		text, here := strings.CutPrefix(fields[5], device+":")
		file, err := strconv.ParseUint(text, 10, 64)
		pid, _ := strconv.Atoi(fields[4])
		if here && err == nil {
			others := slices.DeleteFunc(h.pids[file], func(other int) bool { return other == pid })
			h.pids[file] = append(others, pid)
		}
	}
}

// choose returns the process that has locked the file, and not another one with its number. recorded is
// the process that the file's record names. It counts if the descriptors of the process that holds the
// lock can't be seen: it is another user's, or it has ended and a child keeps the lock.
func (h holders) choose(file fileID, recorded int) (pid int, found bool) {
	for _, pid := range slices.Backward(h.pids[file.number]) {
		if !h.repeated {
			return pid, true
		}
		locked := h.lockedBy(pid)
		if locked[file] || locked == nil && isProcess(pid, recorded) {
			return pid, true
		}
	}
	return 0, false
}

// lockedBy returns the files that the descriptors of a process have locked; nil: they can't be seen.
func (h holders) lockedBy(pid int) map[fileID]bool {
	locked, known := h.locked[pid]
	if !known {
		locked = readLocked(pid)
		h.locked[pid] = locked
	}
	return locked
}

// lacks reports whether the descriptors of a process show that it has not locked the file: it has closed the file, and
// a child keeps the lock, or it is another process than the one that took the lock. It is false if they can't be seen.
func lacks(pid, path string) bool {
	n, err1 := strconv.Atoi(pid)
	info, err2 := os.Lstat(path)
	if err1 != nil || err2 != nil {
		return false
	}
	locked := readLocked(n)
	return locked != nil && !locked[fileIDOf(info)]
}

func readLocked(pid int) map[fileID]bool {
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil
	}
	locked := make(map[fileID]bool)
	for _, fd := range fds {
		// First, because stat on the file system of another file may not return.
		about, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, fd.Name()))
		if errors.Is(err, fs.ErrPermission) { // the process may do more than this one
			return nil
		}
		if !strings.Contains(string(about), "FLOCK") {
			continue
		}
		if info, err := os.Stat(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name())); err == nil {
			locked[fileIDOf(info)] = true
		}
	}
	return locked
}
