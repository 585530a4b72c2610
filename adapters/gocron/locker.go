// Package gocronlocker runs jobs of gocron (github.com/go-co-op/gocron/v2) in one of several
// processes at a time, with the locks of any backend.
//
//	l, err := locker.Open(ctx, os.Getenv("LOCKER_URL"), locker.Efficiency)
//	…
//	once := gocronlocker.NewLocker(l, locker.WithMinHold(5*time.Minute)) // for jobs that run every ten minutes
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(once))
//
// There are three ways:
//
//   - [NewLocker]: each run of a job takes a lock, and the process that comes first runs it. Give it
//     [locker.WithMinHold], because the clocks and the starts of schedulers differ.
//   - [NewElector]: one process leads, and runs all jobs until it ends or is cut off.
//   - [Task]: a lock for one function, which also gets a context that ends when the lease is lost, and
//     the token for what it writes. gocron's interfaces can give a job neither. A job whose writes
//     must be safe takes this.
//
// What is required of the Locker is [locker.Efficiency], for a job whose second run is a nuisance, and
// [locker.Correctness] if it is damage; then the storage checks the token of Task.
package gocronlocker

import (
	"context"

	"github.com/go-co-op/gocron/v2"

	"github.com/fencedlock/locker"
)

// NewLocker returns a Locker for [gocron.WithDistributedLocker] and
// [gocron.WithDistributedJobLocker]. The lock is called as the job is, and gocron calls a job without
// a name as its function. [middleware.Prefix] around l keeps the names of several programs apart.
// The options are the same as for [locker.Locker.Acquire]. The caller closes l, after the scheduler.
//
// A lock is asked for once. When it is held, or its service fails, gocron skips the run, and only
// gocron.AfterLockError is told why: the error matches [locker.ErrHeld] in the first case. An invalid
// name ([locker.ValidName]) or option is such an error, too, and so is a minimum hold that the service
// can't serve: a job with one never runs. The lease is renewed while the job runs, for however long.
//
// With [locker.WithMinHold] a lock stays held for that time after a short run. Without it a job runs
// in each process, when they start it at different moments and the first run is over: half of the period is
// a good value. Closing l waits for the end of that time.
//
// [middleware.Prefix]: https://pkg.go.dev/github.com/fencedlock/locker/middleware#Prefix
func NewLocker(l locker.Locker, opts ...locker.Option) gocron.Locker {
	return jobLocker{l, opts}
}

type jobLocker struct {
	locker locker.Locker
	opts   []locker.Option
}

func (l jobLocker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lease, err := locker.TryAcquire(ctx, l.locker, key, l.opts...)
	if err != nil {
		return nil, err
	}
	return jobLock{lease}, nil
}

type jobLock struct{ lease locker.Lease }

// Unlock is called with the job's context, which is over after a shutdown. Release takes such a
// context.
func (l jobLock) Unlock(ctx context.Context) error { return l.lease.Release(ctx) }
