package gocronlocker

import (
	"context"

	"github.com/fencedlock/locker"
)

// Task returns a function for [gocron.NewTask] that runs fn while it holds the lock called name, with
// [locker.Do]: the context that fn gets ends when the job's context ends and when the lease is lost, and
// the lease has the token for the storage.
//
// The lock is asked for once. When it is held the function returns an error that matches
// [locker.ErrHeld], which gocron passes to the listener gocron.AfterJobRunsWithError. Other errors are
// the errors of [locker.Do]. The options are the same as for [locker.Locker.Acquire], with
// [locker.WithMinHold] as for [NewLocker].
//
// The job's scheduler must not have a Locker that takes a lock of the same name for it, because locks
// are not reentrant.
func Task(
	l locker.Locker, name string, fn func(context.Context, locker.Lease) error,
	opts ...locker.Option,
) func(context.Context) error {
	opts = append(opts[:len(opts):len(opts)], locker.NoWait())
	return func(ctx context.Context) error {
		return locker.Do(ctx, l, name, fn, opts...)
	}
}
