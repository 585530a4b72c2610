// Package gooselocker lets goose (github.com/pressly/goose/v3) apply migrations in one process at a
// time, with the locks of any backend: for databases without advisory locks, and for migrations that
// span several databases.
//
//	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files,
//		goose.WithLocker(gooselocker.New(l, "migrations/app")))
//	…
//	_, err = provider.Up(ctx)
//
// goose doesn't ask between two migrations whether the lock is still held. If the lease is lost, what
// Up returns matches [locker.ErrLost], but migrations may have run meanwhile that another process has
// begun as well. A goose.Provider without a Locker, inside [locker.Do], stops between two migrations, and
// each migration in Go finds the token with [locker.LeaseFrom]:
//
//	err = locker.Do(ctx, l, "migrations/app", func(ctx context.Context, _ locker.Lease) error {
//		_, err := provider.Up(ctx)
//		return err
//	})
//
// What is required of the locker.Locker is [locker.Correctness]. If the data is in Postgres and the locks are, too,
// the method LockTx of pgbackend is nearer to the data.
package gooselocker

import (
	"context"
	"database/sql"
	"errors"

	"github.com/fencedlock/locker"
)

// ErrNotLocked says that Unlock was called without a Lock.
var ErrNotLocked = errors.New("gooselocker: not locked")

// Locker is a lock.Locker of goose, for the option goose.WithLocker.
type Locker struct {
	locker locker.Locker
	name   string
	opts   []locker.Option
	slot   chan struct{}     // full from the beginning of Lock until the end of Unlock: for one caller at a time
	held   chan locker.Lease // the lease of the caller that has filled the slot, while Unlock may release it
}

// New returns a Locker that takes the lock called name. The options are the same as for
// [locker.Locker.Acquire]. It may be used by several providers. The caller closes l.
func New(l locker.Locker, name string, opts ...locker.Option) *Locker {
	return &Locker{locker: l, name: name, opts: opts, slot: make(chan struct{}, 1), held: make(chan locker.Lease, 1)}
}

// Lock waits for the lock until ctx ends, also within a migration of the same Locker, which would wait for
// itself. The database isn't used, and may be nil. The errors are the same as for
// [locker.Locker.Acquire], or the cause of ctx while another caller in this program has the lock.
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error {
	select {
	case l.slot <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	held := false
	defer func() { // also after a panic
		if !held {
			<-l.slot
		}
	}()
	lease, err := l.locker.Acquire(ctx, l.name, l.opts...)
	if err != nil {
		return err
	}
	l.held <- lease
	held = true
	return nil
}

// Unlock gives the lock back. An error that matches [locker.ErrLost] says that the lease ended before:
// another process may have migrated at the same time. One that matches [locker.ErrUnconfirmed] says that
// the removal of the lock isn't confirmed; it goes on, and the migrations are valid. ctx may be over.
func (l *Locker) Unlock(ctx context.Context, _ *sql.DB) error {
	select {
	case lease := <-l.held:
		defer func() { <-l.slot }() // also after a panic
		return lease.Release(ctx)
	default:
		return ErrNotLocked
	}
}
