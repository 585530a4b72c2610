package driver

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/fencedlock/locker"
)

// Inspector is implemented by a Driver whose service knows who holds a lock.
// [locker.Guarantees.Inspection] says what it tells.
//
// Nothing changes on the service, whatever is asked: not even an expired holder is passed over, and
// no lease or place is renewed. A driver that finds that its service can't tell returns
// [locker.ErrNoInspector].
//
// A Status without Holder and an empty page are answers of the service. A request that fails, or has
// no answer, returns its error.
type Inspector interface {
	// Inspect returns the state of the lock called name, or of look.Slot of it if that isn't 0, at
	// some moment during the call, with its first look.Waiters waiters, which are from 0 to about a
	// million. The engine asks about a slot only if the driver declares [locker.FeatureSlots].
	// The Status has the name, the slot, and the key that List shows. A free lock is a Status
	// without Holder. Inspect returns when ctx ends, which may be a caller's context, or within
	// limits of the driver's own. The Status is the caller's. It shows what the holder says of itself
	// ([LabelOf] of its Request), at the latest after the first renewal of the lease. It shows the
	// same of a waiter where the service knows the waiter's place.
	Inspect(ctx context.Context, name string, look locker.Look) (locker.Status, error)

	// List prepares a list of the locks whose names begin with prefix, and of the slots of these
	// names, without I/O. A lock that is held or waited for all the time, from the first call of
	// Pages until there are no more pages, must be on exactly one page.
	List(prefix string, waiters int) Pages
}

// Pages reads the next page of a list, which may be empty, and reports whether there are more. The
// calls come one after the other. They end with the last page, with an error, or when the caller
// has seen enough, so there must be nothing to free at the end. Each call returns when ctx ends,
// which may be by the engine's time limit for one page, so a page is a few requests at most.
type Pages func(ctx context.Context) (page []locker.Status, more bool, err error)

var _ locker.Inspector = (*engine)(nil)

// maxWaiters is how many waiters a driver is asked for at most. Without it each driver would have to
// add and to send numbers that may be as large as an int.
const maxWaiters = 1 << 20

// Inspect asks the driver, if it is an Inspector.
func (e *engine) Inspect(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
	i, err := e.inspector(e.wrongSubject(name, look.Slot), look.Waiters)
	if err != nil {
		return locker.Status{}, e.fail("inspect", name, err)
	}
	look.Waiters = min(look.Waiters, maxWaiters)
	status, err := callOnce(ctx, e, func(ctx context.Context) (locker.Status, error) {
		return i.Inspect(ctx, name, look)
	})
	if err != nil {
		return locker.Status{}, e.fail("inspect", name, err)
	}
	return status, nil
}

// List reads the driver's pages. Close doesn't wait for a caller that does something between them.
func (e *engine) List(ctx context.Context, prefix string, waiters int) iter.Seq2[locker.Status, error] {
	return func(yield func(locker.Status, error) bool) {
		i, err := e.inspector(validPrefix(prefix), waiters)
		if err != nil {
			yield(locker.Status{}, e.fail("list", prefix, err))
			return
		}
		next := i.List(prefix, min(waiters, maxWaiters))
		for p := (page{more: true}); p.more; {
			p, err = callOnce(ctx, e, func(ctx context.Context) (p page, err error) {
				p.locks, p.more, err = next(ctx)
				return p, err
			})
			if err != nil {
				yield(locker.Status{}, e.fail("list", prefix, err))
				return
			}
			for _, status := range p.locks {
				if !yield(status, nil) {
					return
				}
			}
		}
	}
}

// page is what one call of Pages has returned.
type page struct {
	locks []locker.Status
	more  bool
}

// inspector returns the driver as an Inspector, unless an argument is invalid.
func (e *engine) inspector(invalid error, waiters int) (Inspector, error) {
	if invalid != nil {
		return nil, invalid
	}
	if waiters < 0 {
		return nil, fmt.Errorf("%w: %d waiters: want 0 or more", locker.ErrOption, waiters)
	}
	i, ok := e.driver.(Inspector)
	if !ok {
		return nil, locker.ErrNoInspector
	}
	return i, nil
}

// wrongSubject says why there can't be a lock called name, or that slot of it, on this Locker; nil: there can.
func (e *engine) wrongSubject(name string, slot int) error {
	if err := locker.ValidName(name); err != nil {
		return err
	}
	if err := locker.ValidSlot(slot); err != nil {
		return err
	}
	return e.withoutSlots(slot)
}

// withoutSlots is the error of a question about a slot to a driver that doesn't know slots; nil: it may be asked.
func (e *engine) withoutSlots(slot int) error {
	if slot != 0 && e.cfg.Features&locker.FeatureSlots == 0 {
		return fmt.Errorf("%w here: %v", errors.ErrUnsupported, locker.FeatureSlots)
	}
	return nil
}

func validPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	return locker.ValidName(prefix)
}
