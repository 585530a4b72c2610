//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend

import (
	"os"
	"slices"
	"time"

	"github.com/fencedlock/locker"
)

func (l *lock) Extension() any { return handle{l} }

type handle struct{ l *lock }

var _ Handle = handle{}

func (h handle) File() (*os.File, error) {
	f := h.l.held.Load()
	if f == nil {
		return nil, os.ErrClosed
	}
	h.l.shared.Store(true)
	dup, err := duplicate(f)
	if h.l.isOver() { // now, so that an end in between counts
		if err == nil {
			_ = dup.Close()
		}
		return nil, os.ErrClosed
	}
	return dup, err
}

// isOver reports whether the lease has ended. The lock may be held for longer than the lease: until its
// minimum hold is over, or until it is removed.
func (l *lock) isOver() bool {
	leases, _ := locker.Leases(l.d.locker)
	return !slices.ContainsFunc(leases, func(lease locker.LeaseInfo) bool { return l.isOf(lease, time.Now()) })
}

// isOf reports whether this is the lock of a lease, and the lease is held.
func (l *lock) isOf(lease locker.LeaseInfo, now time.Time) bool {
	return lease.State == locker.StateHeld && lease.Name == l.name && lease.Slot == l.slot && lease.Token == l.token &&
		(lease.Deadline.IsZero() || now.Before(lease.Deadline))
}
