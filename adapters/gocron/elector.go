package gocronlocker

import (
	"context"
	"errors"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/leader"
)

// ErrNotLeader says that another process leads, or nobody yet.
var ErrNotLeader = errors.New("gocronlocker: not the leader")

// Elector is an Elector for [gocron.WithDistributedElector]: the scheduler of the process that leads runs
// its jobs, and all others skip theirs. A job asks the method Leads of the embedded candidate before each
// step, because gocron doesn't stop a job that runs when another process is elected, and gives the number of the
// term to the storage.
//
// [gocron.WithDistributedElector]: https://pkg.go.dev/github.com/go-co-op/gocron/v2#WithDistributedElector
type Elector struct{ *leader.Candidate }

// NewElector begins to be a candidate for the office called name. The options are the same as for
// [leader.Stand]. The caller closes the Elector, after the scheduler, and then l.
func NewElector(l locker.Locker, name string, opts ...leader.Option) *Elector {
	return &Elector{leader.Stand(l, name, opts...)}
}

// reasonLimit is for how long IsLeader asks why the candidacy has ended, which is known at once if it has.
const reasonLimit = 10 * time.Millisecond

// IsLeader returns nil while this process leads. It reads the clock, also in a process that was stopped
// and has only just woken up. Otherwise the error matches [ErrNotLeader], and also says why this process can't lead any
// more: an invalid argument ([locker.ErrOption], [locker.ErrName]), or [locker.ErrClosed] after Close.
func (e *Elector) IsLeader(ctx context.Context) error {
	if _, leads := e.Leads(); leads {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reasonLimit)
	defer cancel()
	_, err := e.Wait(ctx)
	switch {
	case err == nil: // it was elected just now
		return nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return ErrNotLeader
	default:
		return errors.Join(ErrNotLeader, err)
	}
}
