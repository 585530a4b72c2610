package gocronlocker

import (
	"context"
	"errors"

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

// NewElector begins to be a candidate for the office called name. The options and the error are the
// same as for [leader.Stand]: a bad argument matches [locker.ErrName] or [locker.ErrOption]. The
// caller closes the Elector, after the scheduler, and then l.
func NewElector(l locker.Locker, name string, opts ...leader.Option) (*Elector, error) {
	c, err := leader.Stand(l, name, opts...)
	if err != nil {
		return nil, err
	}
	return &Elector{c}, nil
}

// IsLeader returns nil while this process leads. It reads the clock, also in a process that was stopped
// and has only just woken up. Otherwise the error matches [ErrNotLeader], and also what the method
// Err of the candidate returns: the last failure to acquire the lock, or why the candidacy has ended,
// such as [locker.ErrClosed] after Close. IsLeader doesn't wait, and doesn't look at the context.
func (e *Elector) IsLeader(context.Context) error {
	if _, leads := e.Leads(); leads {
		return nil
	}
	if err := e.Err(); err != nil {
		return errors.Join(ErrNotLeader, err)
	}
	return ErrNotLeader
}
