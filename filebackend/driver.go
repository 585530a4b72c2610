//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

type fileDriver struct {
	dir        string
	fsName     string // of the file system
	guarantees locker.Guarantees
	locker     locker.Locker // that uses the driver; nil in tests of the driver alone
	watcher    watcher
}

var _ driver.Driver = (*fileDriver)(nil)

func newLocker(dir string, cfg driver.Config) (locker.Locker, error) {
	d, err := newDriver(dir)
	if err != nil {
		return nil, err
	}
	d.locker = driver.New(d, cfg)
	return d.locker, nil
}

func newDriver(dir string) (*fileDriver, error) {
	if dir == "" {
		return nil, fmt.Errorf("%w: no directory", locker.ErrOption)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	at, err := prepareDir(dir)
	if err != nil {
		return nil, err
	}
	d := &fileDriver{dir: at.dir, fsName: at.fsName, guarantees: guaranteesIn(dir, at.kind, at.fsName)}
	if !inspects(at.kind) {
		d.guarantees.Inspection = locker.InspectionNone
	}
	return d, nil
}

func (d *fileDriver) Guarantees() locker.Guarantees { return d.guarantees }

func (d *fileDriver) Lock(req locker.Request, _ func(error)) (driver.Lock, error) {
	return &lock{
		d: d, name: req.Name, slot: req.Slot, path: filepath.Join(d.dir, fileName(req.Name, req.Slot)),
		owner: driver.NewOwner(), label: driver.LabelOf(req).String(),
	}, nil
}

// Renew has nothing to renew. It checks whether each lock is still held.
func (d *fileDriver) Renew(_ context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	for i, l := range locks {
		base := driver.Stamp()
		report(i, base, l.(*lock).check())
	}
}

func (d *fileDriver) Close(ctx context.Context) error { return d.watcher.close(ctx) }

// lock is one acquisition. For the kernel, its open file is the owner of the lock. All tries use
// the same file: to close it after each try would wake the other waiters, and they would do the
// same.
type lock struct {
	d      *fileDriver
	name   string
	slot   int
	path   string
	owner  string
	label  string                  // what it says of itself; empty: nothing
	tried  bool                    // Acquire was called
	file   *os.File                // used by Acquire and Release, which don't overlap
	token  locker.Token            // from the grant on
	held   atomic.Pointer[os.File] // file, while granted; for Renew and the handle, which overlap all
	shared atomic.Bool             // a copy of the descriptor was handed out
}

var (
	_ driver.Lock     = (*lock)(nil)
	_ driver.Extender = (*lock)(nil)
)

func (l *lock) Acquire(ctx context.Context) (driver.Grant, error) {
	if l.tried {
		return l.wait(ctx)
	}
	l.tried = true
	return l.try(ctx)
}

// try asks once. The error is driver.ErrQueued when another process or Locker has the lock; then
// l.file is that lock's file.
func (l *lock) try(ctx context.Context) (driver.Grant, error) {
	for {
		if ctx.Err() != nil {
			return driver.Grant{}, context.Cause(ctx)
		}
		base := driver.Stamp()
		if l.file == nil {
			f, err := openFile(l.d.dir, l.path)
			if err != nil {
				return driver.Grant{}, err
			}
			l.file = f
		}
		locked, err := tryLock(l.file)
		if err != nil {
			return driver.Grant{}, err
		}
		switch there, err := isAt(l.file, l.path); {
		case err != nil:
			return driver.Grant{}, err
		case !there: // the file was replaced, and somebody may hold the lock at the new one
			_ = l.file.Close()
			l.file = nil
			continue
		case !locked:
			return driver.Grant{}, driver.ErrQueued
		}
		token, err := mint(syncedFile{l.file}, l.owner, l.label, func() error { return syncDir(l.d.dir) })
		if err != nil {
			return driver.Grant{}, err
		}
		l.token = token
		granted.add(l.file)
		l.held.Store(l.file)
		return driver.Grant{Token: token, Base: base}, nil
	}
}

// Release unlocks before it closes, because a child may have the descriptor as well: on purpose, or
// while it is being started.
func (l *lock) Release(context.Context) error {
	l.held.Store(nil)
	if l.file == nil {
		return nil
	}
	if err := unlock(l.file); err != nil {
		return err
	}
	if l.shared.Load() {
		_ = touch(l.file) // waiters are woken when the file is closed, which a child may do much later
	}
	_ = l.file.Close() // everything written is on the disk, and the lock is free
	granted.remove(l.file)
	l.file = nil
	return nil
}

// check returns an error unless a granted lock is still held. A waiter has nothing to lose.
func (l *lock) check() error {
	f := l.held.Load()
	if f == nil {
		return nil
	}
	switch there, err := isAt(f, l.path); {
	case err != nil:
		return err
	case !there:
		return fmt.Errorf("%w: lock file %s was removed or replaced", locker.ErrLost, l.path)
	}
	return nil
}
