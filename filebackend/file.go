//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/fencedlock/locker/driver"
)

// openFile opens a lock file, and creates it if it doesn't exist. (The os package adds O_CLOEXEC.)
func openFile(dir, path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syncFlag, 0)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		if err := createFile(dir, path); err != nil {
			return nil, err
		}
	}
}

// createFile creates a lock file under a temporary name and links it to its own name when its
// content is on the disk. So nobody ever sees an incomplete one. A crash may leave the temporary
// file, which does no harm.
func createFile(dir, path string) (err error) {
	tmp := filepath.Join(dir, ".new-"+driver.NewOwner())
	defer func() {
		if rmErr := os.Remove(tmp); !errors.Is(rmErr, fs.ErrNotExist) {
			err = errors.Join(err, rmErr)
		}
	}()
	if err := writeFile(tmp, blankFile()); err != nil {
		return err
	}
	if err := os.Link(tmp, path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil // another process was faster
}

func writeFile(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW|syncFlag, 0o600)
	if err != nil {
		return err
	}
	// A umask that takes rights from the owner would make a file that no process of the user can
	// ever open.
	if err := f.Chmod(0o600); err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(syncedFile{f}.writeSynced(content, 0), f.Close())
}

// syncedFile is an open file on the disk. It was opened with syncFlag.
type syncedFile struct{ *os.File }

func (f syncedFile) writeSynced(b []byte, at int64) error {
	if _, err := f.WriteAt(b, at); err != nil || syncFlag != 0 {
		return err
	}
	return f.Sync()
}

// syncEarlier writes to the disk what an earlier holder may not have synced. With syncFlag each write
// is on the disk before its process can end and the lock can pass on.
func (f syncedFile) syncEarlier() error {
	if syncFlag != 0 {
		return nil
	}
	return f.Sync()
}

// syncDir writes the entries of a directory to the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// tryLock returns false when another open file has locked f.
func tryLock(f *os.File) (bool, error) {
	err := control(f, "flock", func(fd int) error { return syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) })
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func unlock(f *os.File) error {
	return control(f, "flock", func(fd int) error { return syscall.Flock(fd, syscall.LOCK_UN) })
}

// duplicate returns another descriptor of the same open file, and so of the same lock.
func duplicate(f *os.File) (dup *os.File, err error) {
	err = control(f, "dup", func(fd int) error {
		syscall.ForkLock.RLock() // so that no child starts before the descriptor is marked
		defer syscall.ForkLock.RUnlock()
		newFd, err := syscall.Dup(fd)
		if err == nil {
			syscall.CloseOnExec(newFd)
			dup = os.NewFile(uintptr(newFd), f.Name())
		}
		return err
	})
	return dup, err
}

// touch wakes the waiters of f: it sets the mode of f to what it already is.
func touch(f *os.File) error {
	return control(f, "chmod", func(fd int) error {
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); err != nil {
			return err
		}
		return syscall.Fchmod(fd, uint32(st.Mode)&0o7777) //nolint:unconvert // it has 16 bits on some systems
	})
}

// control makes a system call on f, which stays open during the call.
func control(f *os.File, op string, call func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	err = conn.Control(func(fd uintptr) {
		for callErr = call(int(fd)); errors.Is(callErr, syscall.EINTR); {
			callErr = call(int(fd))
		}
	})
	if err == nil && callErr != nil {
		err = &fs.PathError{Op: op, Path: f.Name(), Err: callErr}
	}
	return err
}

// isAt reports whether path names f. It doesn't when somebody has removed or replaced the file.
func isAt(f *os.File, path string) (bool, error) {
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, there), err
}
