package locker

import (
	"context"
	"errors"
	"fmt"
)

// Observer gets to know what a [Locker] does, for logs, metrics and traces. [Observe] attaches it.
type Observer interface {
	// Observe is called for each event, one at a time and in the order of the events, on a goroutine that holds no
	// mutex of this module. So it may call any method of a locker or a lease, Close as well. Nobody waits for it:
	// a slow Observer delays no lock. Events wait while it is late. When 8,192 events wait, further ones are
	// dropped and counted ([Stats]); EventRenewed is dropped when half as many wait. Observe must not panic.
	//
	// ctx has the values of the context of the Acquire that the event belongs to, or no values if no Observer was
	// attached when Acquire was called. ctx never ends.
	Observe(ctx context.Context, e Event)
}

// Tracer is an [Observer] that is called when an acquisition begins, too.
type Tracer interface {
	Observer

	// Begin is called on the goroutine of each caller of Acquire, before anything is queued or sent. It isn't
	// called for a call that begins nothing, as [Stats] says. [EventGranted] or [EventRefused] follows.
	//
	// What Acquire does from then on has the values of the context that Begin returns, which should come from ctx.
	// The end of the returned context has no effect: the call ends with ctx. A nil context counts as ctx. Each of
	// several Tracers gets the context of the one before. Acquire waits for Begin, so Begin must be quick. It must
	// not panic.
	Begin(ctx context.Context, r Request) context.Context
}

// Observable is a [Locker] that can say what it does. The functions [Observe], [StatsOf] and [Leases] call its methods.
// Every backend is one; a decorator passes the calls on, or has the method Unwrap that [AsLocker] looks for.
type Observable interface {
	// Observe does what the function [Observe] does.
	Observe(o Observer, kinds EventKind) (stop func(), err error)

	// Stats returns what the function [StatsOf] returns.
	Stats() (Stats, bool)

	// Leases returns what the function [Leases] returns.
	Leases() ([]LeaseInfo, bool)
}

// Observe attaches o to l: from now on, o gets the events of these kinds; 0 means all kinds. It may
// be called at any time. Several observers get each event one after the other. stop detaches o:
// when stop has returned, o gets no further event, but the call of o that is under way goes on.
// stop may be called twice, and from o itself.
//
// A decorator and what is below it are one locker here: behind a prefix, o gets the events of all locks of the locker
// below, with their whole names. Tokens are the ones that l gives out.
//
// An observer adds no goroutine to an idle locker. Close waits up to a second for the delivery of
// what has happened.
//
// The error matches [errors.ErrUnsupported] when l is not [Observable], and [ErrOption] when o is nil.
func Observe(l Locker, o Observer, kinds EventKind) (stop func(), err error) {
	if o == nil {
		return nil, &Error{Op: "observe", Backend: l.Guarantees().Backend, Err: errNoObserver}
	}
	if x, ok := AsLocker[Observable](l); ok {
		return x.Observe(o, kinds)
	}
	return nil, &Error{Op: "observe", Backend: l.Guarantees().Backend, Err: errNotObservable}
}

var errNoObserver = fmt.Errorf("%w: the observer is nil: want one, for example observe.Func(f)", ErrOption)

var errNotObservable = fmt.Errorf("%w here: this locker doesn't say what it does", errors.ErrUnsupported)
