package locker

import (
	"context"
	"slices"
	"sync"
	"time"
)

// LeaseSet is what [AcquireAll] and [AcquireInOrder] return: the leases on several locks. It is no
// [Lease], because it has no single name or token. It is safe for concurrent use.
type LeaseSet struct {
	leases []Lease // in the order in which the caller has named the locks
	order  []int   // indexes of leases, in the order in which the locks were waited for
	watch  sync.Once
	done   chan struct{}
}

// Lease returns the lease on the lock called name; nil if there is none. If two Lockers have a lock
// of that name, it is the lease of the one that was named first; All has both.
func (s *LeaseSet) Lease(name string) Lease {
	for _, lease := range s.leases {
		if lease.Name() == name {
			return lease
		}
	}
	return nil
}

// All returns the leases in the order in which the caller has named the locks.
func (s *LeaseSet) All() []Lease { return slices.Clone(s.leases) }

// Done is closed when the first of the leases ends. Its first call starts a goroutine for each
// lease; they end when Done is closed.
func (s *LeaseSet) Done() <-chan struct{} {
	s.watch.Do(func() {
		s.done = make(chan struct{})
		var once sync.Once
		watch(s.leases, s.done, func(error) { once.Do(func() { close(s.done) }) })
	})
	return s.done
}

// Err is nil only while all locks are held. Later it is the error of a lease that has ended, and
// names its lock. If several have ended, it is the one whose lock was waited for first, and not the
// one that ended first. It reads the clock, as [Lease] says.
func (s *LeaseSet) Err() error {
	for _, i := range s.order {
		if err := s.leases[i].Err(); err != nil {
			return err
		}
	}
	return nil
}

// Deadline is the earliest deadline of the leases. The zero time says that none of them ends by
// time.
func (s *LeaseSet) Deadline() time.Time {
	var earliest time.Time
	for _, lease := range s.leases {
		if d := lease.Deadline(); !d.IsZero() && (earliest.IsZero() || d.Before(earliest)) {
			earliest = d
		}
	}
	return earliest
}

// Release releases all the leases at the same time, also those after one that was lost. Its error
// joins theirs in the order of the wants: nil when each removal is confirmed. It matches [ErrLost] if
// one of the leases was lost, and [ErrUnconfirmed] if one removal isn't confirmed. What [Lease] says
// of Release holds for each: it works with a ctx that is over, and may be repeated.
func (s *LeaseSet) Release(ctx context.Context) error { return join(s.release(ctx)...) }

// release returns the errors of Release, or nil, in the order of the wants. A panic of one is repeated when all
// have returned.
func (s *LeaseSet) release(ctx context.Context) []error {
	answers, errs := make([]answer, len(s.leases)), make([]error, len(s.leases))
	var all sync.WaitGroup
	for i, lease := range s.leases {
		all.Go(func() { answers[i] = ask(func() (Lease, error) { return nil, lease.Release(ctx) }) })
	}
	all.Wait()
	repeatPanics(answers)
	for i, a := range answers {
		errs[i] = a.err
	}
	return errs
}
