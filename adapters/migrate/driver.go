// Package migratelocker lets golang-migrate (github.com/golang-migrate/migrate/v4) apply migrations in
// one process at a time, with the locks of any backend: for databases without advisory locks, for
// migrations that span several databases, and for poolers that break advisory locks.
//
//	d, err := sqlite.WithInstance(db, &sqlite.Config{})
//	…
//	m, err := migrate.NewWithInstance("iofs", source, "app", migratelocker.Wrap(d, l, "migrations/app"))
//	…
//	err = m.Up() // migrate.ErrNoChange: another process has applied them
//
// WithInstance of SQLite writes before the lock is held, so open the database with a busy timeout.
//
// What is required of the Locker is [locker.Correctness]. A database can't check the token of
// migrations that are written for golang-migrate; instead no step begins after the lease was lost. A
// migration that runs at that moment goes on.
package migratelocker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/golang-migrate/migrate/v4/database"

	"github.com/fencedlock/locker"
)

// defaultWait is shorter than [migrate.DefaultLockTimeout], see [WithWait].
//
// [migrate.DefaultLockTimeout]: https://pkg.go.dev/github.com/golang-migrate/migrate/v4#pkg-variables
const defaultWait = 10 * time.Second

// Option changes what [Wrap] returns.
type Option func(*driver)

// WithWait sets for how long a migration waits for the lock; without it, 10 seconds. It must be
// positive, and shorter than the field LockTimeout of migrate.Migrate, which is 15 seconds by default:
// golang-migrate doesn't stop a Lock that takes longer, so the lock would be held until Close.
func WithWait(d time.Duration) Option {
	return func(drv *driver) {
		if d <= 0 {
			drv.invalid = fmt.Errorf("%w: wait %v: want a positive time, such as 10s", locker.ErrOption, d)
		}
		drv.wait = d
	}
}

// WithAcquire sets options of the acquisition, such as [locker.WithTTL].
func WithAcquire(opts ...locker.Option) Option {
	return func(drv *driver) { drv.acquire = append(drv.acquire, opts...) }
}

// Wrap returns d with the lock called name in place of its own. It is for one migrate.Migrate, as d is.
//
// Lock waits as [WithWait] says, and returns an error that matches [database.ErrLocked] and
// [locker.ErrHeld] while somebody else has the lock. An invalid name or option is an error of Lock. Run,
// SetVersion and Drop fail with the lease's error when it was lost. A database whose step was under way
// then stays dirty, so somebody must look. Without a Lock before them, which golang-migrate never leaves
// out, they do what d does.
//
// Unlock returns the lease's error when it was lost: another process may have begun. It also returns an
// error when the removal of the lock isn't confirmed: that one matches [locker.ErrUnconfirmed], the
// migrations are valid, and the removal goes on. golang-migrate doesn't lock again after either, so take a
// new migrate.Migrate. Close waits for the step that is under way, and gives the lock back then; no other step
// begins. Open is refused: wrap an instance.
func Wrap(d database.Driver, l locker.Locker, name string, opts ...Option) database.Driver {
	ctx, cancel := context.WithCancel(context.Background())
	drv := &driver{Driver: d, locker: l, name: name, wait: defaultWait, ctx: ctx, cancel: cancel}
	for _, opt := range opts {
		opt(drv)
	}
	return drv
}

// errClosed is the error of a step that begins after Close.
var errClosed = errors.New("migratelocker: the driver is closed")

type driver struct {
	database.Driver
	locker  locker.Locker
	name    string
	wait    time.Duration
	acquire []locker.Option
	invalid error // of the last option with an invalid value

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	steps sync.RWMutex // held by each step while it is under way, and by Close when there is none

	mu    sync.Mutex
	lease locker.Lease // nil: not locked
}

func (d *driver) Open(string) (database.Driver, error) {
	return nil, fmt.Errorf("migratelocker: %w: Open of a driver that was wrapped; wrap what Open or WithInstance of the database's own package returns", errors.ErrUnsupported)
}

func (d *driver) Lock() error {
	if d.invalid != nil {
		return fmt.Errorf("migratelocker: %w", d.invalid)
	}
	d.mu.Lock()
	locked := d.isLocked()
	d.mu.Unlock()
	if locked {
		return database.ErrLocked
	}
	ctx, cancel := context.WithTimeout(d.ctx, d.wait)
	defer cancel()
	lease, err := d.locker.Acquire(ctx, d.name, d.acquire...)
	if errors.Is(err, locker.ErrHeld) {
		return fmt.Errorf("%w: %w", database.ErrLocked, err)
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	late := d.isLocked() || d.ctx.Err() != nil // of two calls, or of a call and Close
	if !late {
		d.lease = lease
	}
	d.mu.Unlock()
	if late {
		return errors.Join(database.ErrLocked, lease.Release(d.ctx))
	}
	return nil
}

func (d *driver) Unlock() error {
	lease := d.take()
	if lease == nil {
		return database.ErrNotLocked
	}
	return lease.Release(context.Background())
}

// Close ends a Lock that waits, and closes the driver below. It gives the lock back when the step that is
// under way has ended: the Close of most databases doesn't wait for it.
func (d *driver) Close() error {
	d.cancel()
	err := d.Driver.Close()
	d.steps.Lock()
	lease := d.take()
	d.steps.Unlock()
	if lease != nil {
		err = errors.Join(lease.Release(context.Background()), err)
	}
	return err
}

func (d *driver) Run(migration io.Reader) error {
	return d.step(func() error { return d.Driver.Run(migration) })
}

func (d *driver) SetVersion(version int, dirty bool) error {
	return d.step(func() error { return d.Driver.SetVersion(version, dirty) })
}

func (d *driver) Drop() error { return d.step(d.Driver.Drop) }

// step calls f, unless the lease was lost, or the driver is closed.
func (d *driver) step(f func() error) error {
	d.steps.RLock()
	defer d.steps.RUnlock()
	if d.ctx.Err() != nil {
		return errClosed
	}
	d.mu.Lock()
	lease := d.lease
	d.mu.Unlock()
	if lease != nil {
		if err := lease.Err(); err != nil {
			return err
		}
	}
	return f()
}

// isLocked reports whether there is a lease that has not ended. golang-migrate never gives a lock back that
// came too late for it, so there may be one that has. The mutex is held.
func (d *driver) isLocked() bool { return d.lease != nil && d.lease.Err() == nil }

// take returns the lease for its release.
func (d *driver) take() locker.Lease {
	d.mu.Lock()
	defer d.mu.Unlock()
	lease := d.lease
	d.lease = nil
	return lease
}
