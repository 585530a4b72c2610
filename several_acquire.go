package locker

import (
	"context"
	"errors"
	"slices"
	"time"
)

// acquire returns all leases, in the order in which the caller has named them.
//
// While it waits for a lock, it holds only locks that come before in s.order. In a circle of calls
// that wait for each other each would wait for a holder of its lock, which waits for a later lock,
// or for a place in the queue of the same lock: positions in the order never fall along the circle,
// and places in a queue fall strictly. So there is no such circle.
func (s *several) acquire(ctx context.Context) (*LeaseSet, error) {
	return again(ctx, func() (*LeaseSet, error) { return s.once(ctx) })
}

// once acquires all locks, or returns an error when nothing of them is left, as far as that is
// known.
func (s *several) once(ctx context.Context) (_ *LeaseSet, err error) {
	got := make([]Lease, len(s.items)) // by position in s.order
	complete := false
	defer func() {
		if !complete { // an error, or a panic of a Locker
			releaseAll(ctx, got)
		}
	}()
	for first := 0; ; {
		held, answer, err := s.askAll(ctx, got, first)
		if err != nil {
			return nil, err
		}
		if held == len(got) {
			break
		}
		// Only what comes before may be kept while this one is waited for.
		released := startRelease(ctx, got[held+1:])
		asked := time.Now()
		if got[held], err = s.await(ctx, got[:held], held); err != nil {
			return nil, s.stillHeld(ctx, held, answer, err, asked)
		}
		select {
		case <-released: // or this call would find its own leases
		case <-ctx.Done():
		}
		first = held + 1
	}
	leases := &LeaseSet{leases: make([]Lease, len(got)), order: s.order}
	for position, i := range s.order {
		leases.leases[i] = got[position]
	}
	for position, lease := range got {
		if err := lease.Err(); err != nil {
			return nil, s.endedOnTheWay(position, err)
		}
	}
	complete = true
	return leases, nil
}

// endedOnTheWay is the error of a lease that ended before all were granted. A call that waits begins
// again then, and one that doesn't asks for each lock once.
func (s *several) endedOnTheWay(position int, why error) error {
	if !s.noWait {
		return &lostOnTheWay{why}
	}
	item := s.items[s.order[position]]
	return &Error{Op: "acquire", Backend: item.Locker.Guarantees().Backend, Name: item.Name, Err: errEndedOnTheWay}
}

// askAll asks for all locks from position first on at the same time, without waiting. It returns
// the first position whose lock must be waited for, with the answer that says so, or the number of locks if
// all are granted. What was granted is in got.
func (s *several) askAll(ctx context.Context, got []Lease, first int) (held int, answer, err error) {
	answers := askSideBySide(ctx, len(got)-first, func(ctx context.Context, i int) (Lease, error) {
		return s.ask(ctx, first+i, NoWait())
	})
	held = len(got)
	for position := len(got) - 1; position >= first; position-- {
		got[position] = answers[position-first].lease
		switch failed := answers[position-first].err; {
		case failed == nil:
		case s.noWait, !mayWait(failed):
			err = failed
		default:
			held, answer = position, failed
		}
	}
	return held, answer, err
}

func (s *several) ask(ctx context.Context, position int, more ...Option) (Lease, error) {
	item := s.items[s.order[position]]
	return acquire(ctx, item.Locker, item.Name, slices.Concat(s.opts, item.Opts, more))
}

// await waits for the lock at a position. If one of the leases in kept is lost meanwhile, it stops.
func (s *several) await(ctx context.Context, kept []Lease, position int) (Lease, error) {
	waiting, cancel := waitContext(ctx)
	defer cancel(nil)
	over := make(chan struct{})
	defer close(over)
	watch(kept, over, func(err error) { cancel(&lostOnTheWay{err}) })
	lease, err := s.ask(waiting, position)
	if why := context.Cause(waiting); err != nil && why != nil && ctx.Err() == nil {
		return nil, why
	}
	return lease, err
}

// stillHeld is for the lock at a position, of which answer was the last answer.
func (s *several) stillHeld(ctx context.Context, position int, answer, err error, asked time.Time) error {
	if !errors.Is(answer, ErrHeld) { // it was granted, and lost at once
		return err
	}
	item := s.items[s.order[position]]
	return stillHeld(ctx, item.Locker, item.Name, err, asked)
}
