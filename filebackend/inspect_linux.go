package filebackend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// Who holds a lock is read from /proc/locks. Inspect doesn't try the lock: that would tell
// contenders for a moment that a free lock is held.

const inspection = locker.InspectionHolder

var _ driver.Inspector = (*fileDriver)(nil)

// initialPIDs is what /proc/self/ns/pid says in the machine's own namespace of process ids, whose
// number is fixed (PROC_PID_INIT_INO). In another namespace /proc/locks leaves out the locks of
// processes that can't be seen there, and a held lock would look free.
const initialPIDs = "pid:[4026531836]"

// inspects reports whether /proc/locks shows the locks in a directory. On layers of file systems it
// has other numbers than the files.
func inspects(kind fileSystem) bool {
	ns, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && ns == initialPIDs && (kind == fsLocal || kind == fsMemory)
}

// Inspect reads the lock table of the kernel, and the file.
func (d *fileDriver) Inspect(_ context.Context, name string, look locker.Look) (locker.Status, error) {
	s := locker.Status{Name: name, Slot: look.Slot, Key: filepath.Join(d.dir, fileName(name, look.Slot)), Waiting: -1}
	var err error
	s.Holder, err = d.holder(s.Key)
	return s, err
}

// holder is who holds the lock of a file; nil: nobody does.
func (d *fileDriver) holder(path string) (*locker.Party, error) {
	held, err := d.holders()
	if err != nil {
		return nil, err
	}
	return held.of(path)
}

// List looks at each file of the directory.
func (d *fileDriver) List(prefix string, _ int) driver.Pages {
	return func(ctx context.Context) ([]locker.Status, bool, error) {
		files, err := os.ReadDir(d.dir)
		if err != nil {
			return nil, false, err
		}
		held, err := d.holders()
		if err != nil {
			return nil, false, err
		}
		var all []locker.Status
		for _, file := range files {
			name, slot, ok := nameOf(file.Name())
			if !ok || !strings.HasPrefix(name, prefix) {
				continue
			}
			if ctx.Err() != nil {
				return nil, false, ctx.Err()
			}
			s := locker.Status{Name: name, Slot: slot, Key: filepath.Join(d.dir, file.Name()), Waiting: -1}
			if s.Holder, err = held.of(s.Key); err != nil {
				return nil, false, err
			}
			if s.Holder != nil {
				all = append(all, s)
			}
		}
		return all, false, nil
	}
}

// lockTableReadings is how often the lock table is read if the kernel gives it in parts: it may skip a
// lock when others have gone between two parts.
const lockTableReadings = 8

// holders reads the lock table.
func (d *fileDriver) holders() (holders, error) {
	if d.guarantees.Inspection == locker.InspectionNone {
		return holders{}, fmt.Errorf("%w: /proc/locks doesn't show the locks in %s from here", locker.ErrNoInspector, d.dir)
	}
	device, err := deviceOf(d.dir)
	if err != nil {
		return holders{}, err
	}
	held := newHolders(d.fsName)
	for range lockTableReadings {
		table, parts, err := readLockTable()
		if err != nil {
			return holders{}, err
		}
		held.add(table, device)
		if parts < 2 {
			break
		}
	}
	return held, nil
}

// readLockTable also returns in how many parts it got the table. A part is as long as what is asked
// for, and a page at most. os.ReadFile asks for 512 bytes first.
func readLockTable() (table string, parts int, err error) {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	var all strings.Builder
	part := make([]byte, 16<<10) // some systems have larger pages
	for {
		n, err := f.Read(part)
		all.Write(part[:n])
		if n > 0 {
			parts++
		}
		if errors.Is(err, io.EOF) {
			return all.String(), parts, nil
		}
		if err != nil {
			return "", 0, err
		}
	}
}

// of is who holds the lock at path; nil: nobody does.
func (h holders) of(path string) (*locker.Party, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	file := fileIDOf(info)
	if len(h.pids[file.number]) == 0 {
		return nil, nil
	}
	g := grant{pid: -1} // of a directory or a FIFO, which has no record
	if info.Mode().IsRegular() {
		if g, err = newestGrant(path); err != nil {
			return nil, err
		}
	}
	pid, held := h.choose(file, g.pid)
	if !held {
		return nil, nil
	}
	p := &locker.Party{Session: strconv.Itoa(pid)}
	// Otherwise the record is of an earlier holder: this one is no Locker, or it has not written
	// its own yet.
	if isProcess(pid, g.pid) {
		p.Owner, p.Token = g.owner, g.token
		driver.ParseLabel(g.label).Describe(p)
		// Else the clock was set back, or was never set.
		if at := time.UnixMicro(int64(g.token)); !at.After(time.Now()) && at.Year() >= 2000 {
			p.Since = at
		}
	}
	return p, nil
}

// unreadable are errors of files without a record for this user. The errors after the second one
// are of a file that has been replaced: by a symbolic link, a socket, a file that a server has a
// lease on.
var unreadable = []error{fs.ErrPermission, fs.ErrNotExist, syscall.ELOOP, syscall.ENXIO, syscall.EWOULDBLOCK}

// newestGrant reads the newest record of a lock file. It is empty if there is none, or this user
// may not read it.
func newestGrant(path string) (newest grant, err error) {
	// O_NONBLOCK is for a FIFO in the file's place: without it the open waits until somebody writes.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if slices.ContainsFunc(unreadable, func(of error) bool { return errors.Is(err, of) }) {
		return grant{}, nil
	}
	if err != nil {
		return grant{}, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return grant{}, err
	}
	record := make([]byte, writeSize)
	for i := range slots {
		n, err := f.ReadAt(record, int64(i)*slotSize)
		if err != nil && !errors.Is(err, io.EOF) {
			return grant{}, err
		}
		if g, ok := decodeWithLabel(record[:n]); ok && g.token > newest.token {
			newest = g
		}
	}
	return newest, nil
}

// isProcess reports whether the process that is pid here calls itself own, perhaps in a namespace
// of its own.
func isProcess(pid, own int) bool {
	if pid == own {
		return true
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may have ended, and its child has the lock
	for line := range strings.Lines(string(status)) {
		if ids, found := strings.CutPrefix(line, "NSpid:"); found {
			return slices.Contains(strings.Fields(ids), strconv.Itoa(own))
		}
	}
	return false
}

// deviceOf is the device of a directory as /proc/locks has it: the device of its mount. On Btrfs
// stat(2) says another one.
func deviceOf(dir string) (string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	defer f.Close()
	about, err1 := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", f.Fd()))
	mounts, err2 := os.ReadFile("/proc/self/mountinfo")
	if err := cmp.Or(err1, err2); err != nil {
		return "", err
	}
	_, id, _ := strings.Cut(string(about), "mnt_id:")
	id, _, _ = strings.Cut(strings.TrimSpace(id), "\n")
	for line := range strings.Lines(string(mounts)) {
		var major, minor uint32
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == id {
			if _, err := fmt.Sscanf(fields[2], "%d:%d", &major, &minor); err == nil {
				return fmt.Sprintf("%02x:%02x", major, minor), nil
			}
		}
	}
	return "", fmt.Errorf("%w: the device of %s isn't in /proc/self/mountinfo", locker.ErrNoInspector, dir)
}
