package locker_test

import (
	"context"
	"errors"
	"time"

	"github.com/fencedlock/locker"
)

// fakeLocker hands out the lease it was given: the functions of this package are tested against the
// interfaces alone.
type fakeLocker struct {
	guarantees locker.Guarantees
	lease      *fakeLease
	err        error
	requests   []locker.Request
	closed     int
}

func (f *fakeLocker) Acquire(_ context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	req, err := locker.Resolve(name, opts...)
	if err != nil {
		return nil, err
	}
	f.requests = append(f.requests, req)
	if f.err != nil {
		return nil, f.err
	}
	return f.lease, nil
}

func (f *fakeLocker) Guarantees() locker.Guarantees { return f.guarantees }
func (f *fakeLocker) Close() error                  { f.closed++; return nil }

type fakeLease struct {
	token      locker.Token
	done       chan struct{}
	err        error // what Err says once done is closed, or before, when the timer is late
	releaseErr error
	released   int
}

func newFakeLease() *fakeLease { return &fakeLease{token: 7, done: make(chan struct{})} }

func (l *fakeLease) Name() string                { return "name" }
func (l *fakeLease) Token() locker.Token         { return l.token }
func (l *fakeLease) Deadline() time.Time         { return time.Time{} }
func (l *fakeLease) Done() <-chan struct{}       { return l.done }
func (l *fakeLease) Err() error                  { return l.err }
func (l *fakeLease) Renew(context.Context) error { return l.err }

func (l *fakeLease) Release(context.Context) error {
	l.released++
	if l.err == nil {
		l.end(locker.ErrReleased)
	}
	return l.releaseErr
}

func (l *fakeLease) end(err error) {
	l.err = err
	close(l.done)
}

func lost(cause string) error { return errors.Join(locker.ErrLost, errors.New(cause)) }
