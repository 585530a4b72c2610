package locker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"
)

// Inspector is a [Locker] that may be able to tell who holds a lock and who waits for it. [Inspect] and [List] call it.
type Inspector interface {
	// Inspect returns what the function [Inspect] returns. It is safe for concurrent use.
	Inspect(ctx context.Context, name string, waiters int) (Status, error)
	// List returns what the function [List] returns. It is safe for concurrent use.
	List(ctx context.Context, prefix string, waiters int) iter.Seq2[Status, error]
}

// Status is what the service knew of one lock at some moment. The lock may be a slot of a name, or the line of those
// who wait for one: see [AcquirePermit]. [List] shows these with their name and Slot; [Inspect] doesn't.
type Status struct {
	Name    string  // as the Locker calls it; "" where the service keeps a hash, and no holder has written the name
	Slot    int     // of a permit, from 1 on, or LineSlot; 0: the lock called Name
	Key     string  // what the service calls it, for its own tools: a key, a node, a path, a number; the same in Inspect and List
	Holder  *Party  // nil: nobody holds the lock
	Waiters []Party // in the service's order, the first ones, as many as were asked for
	Waiting int     // how many wait in all; -1: the service doesn't know who waits
	Partial []Party // redlock: who has the lock on some servers, but on no majority
}

// Party is a holder or a waiter as the service knows it. What the service doesn't know is zero.
type Party struct {
	Owner   string        // the id of the acquisition
	Token   Token         // of a holder
	Holder  string        // what it says of itself: see WithHolder; at most 200 bytes without control characters, whatever is written there
	Trace   string        // W3C traceparent of its acquisition: see ContextWithTrace
	Asked   time.Time     // when the acquisition began, by a clock of the service, or else its own
	Since   time.Time     // when the lock was granted, by a clock of the service
	Expires time.Duration // until the service could let somebody else in, unless it hears of the holder; 0: unknown, or never by time
	Session string        // what it is attached to: an etcd lease, a ZooKeeper session, a process of Postgres or of this machine
	Broken  *Breach       // of a holder that Break takes the lock away from, while it still has it
}

// Inspect asks the service who holds the lock called name and who waits for it. Permits of that
// name are other locks, which [List] shows. It is for operators, and for programs that show the
// state of locks. The answer was true at some moment during the call, and may be old when it
// arrives: use a lease to protect something, not an answer.
//
// The result has at most the given number of waiters (0: none), and never more than about a million;
// [Status.Waiting] counts all of them. The Status of a free lock has no Holder. When a lease has
// just expired, the call doesn't hand the lock on: until the service does that, the lock is free,
// and has waiters. Nothing changes on the service.
//
// ctx covers the call, which also ends after 5 seconds; then the error matches [ErrNoAnswer], and no error of a context.
// A backend that can't tell, or whose service can't, returns [ErrNoInspector]; [Guarantees.Inspection] says so before.
// A bad name matches [ErrName], a negative number of waiters [ErrOption], a closed locker [ErrClosed], and any other
// error is ctx's or the service's. The error is an [*Error].
func Inspect(ctx context.Context, l Locker, name string, waiters int) (Status, error) {
	i, ok := AsLocker[Inspector](l)
	if !ok {
		return Status{}, &Error{Op: "inspect", Backend: l.Guarantees().Backend, Name: name, Err: ErrNoInspector}
	}
	return i.Inspect(ctx, name, waiters)
}

// List asks the service which locks whose names begin with prefix are held or waited for; all of them if prefix is
// empty. Each Status is as from [Inspect], with at most waiters waiters.
//
//	for s, err := range locker.List(ctx, l, "invoices/", 0) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(s.Name, s.Waiting)
//	}
//
// The permits of a name come as a Status for each slot that is held or waited for, and one for the line.
//
// A lock that is held or waited for from the beginning to the end of the iteration comes exactly
// once. A lock that is held or waited for during a part of that time comes once or not at all.
// Locks come in no order. etcd and Postgres show all locks at one moment, other services each lock
// at a moment of its own. Nothing changes on the service.
//
// There is one exception: redis and redlock may miss a lock that passes from a dead holder to a
// waiter while the list is read, because new keys take the place of its keys then.
//
// An error comes with a zero Status and ends the iteration. ctx covers the iteration; a request
// that has no answer ends it after 5 seconds. The errors are the same as Inspect's; a bad prefix
// matches [ErrName]. A service that keeps hashes of names (postgres) knows only the names that
// holders have written. If it has locks without a name, a list with a prefix ends with
// [ErrNoInspector].
func List(ctx context.Context, l Locker, prefix string, waiters int) iter.Seq2[Status, error] {
	i, ok := AsLocker[Inspector](l)
	if !ok {
		return func(yield func(Status, error) bool) {
			yield(Status{}, &Error{Op: "list", Backend: l.Guarantees().Backend, Name: prefix, Err: ErrNoInspector})
		}
	}
	return i.List(ctx, prefix, waiters)
}

// ErrNoInspector says that a backend, or its service, can't tell who holds a lock. It matches [errors.ErrUnsupported].
var ErrNoInspector = fmt.Errorf("%w here: nothing tells who holds a lock", errors.ErrUnsupported)

// Inspect calls Inspect of the locker underneath, and adds the base to the tokens.
func (b based) Inspect(ctx context.Context, name string, waiters int) (Status, error) {
	s, err := Inspect(ctx, b.Locker, name, waiters)
	return b.status(s), err
}

// List calls List of the locker underneath, and adds the base to the tokens.
func (b based) List(ctx context.Context, prefix string, waiters int) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		for s, err := range List(ctx, b.Locker, prefix, waiters) {
			if !yield(b.status(s), err) {
				return
			}
		}
	}
}

// status puts the base on the tokens of s, which belongs to this call alone.
func (b based) status(s Status) Status {
	if s.Holder != nil {
		s.Holder.Token = b.token(s.Holder.Token)
	}
	for i := range s.Partial {
		s.Partial[i].Token = b.token(s.Partial[i].Token)
	}
	return s
}

// token is a token plus base. Zero stays zero: it says that the token is not known. A token that is
// negative, or would be larger than an int64, is another program's, which uses no base.
func (b based) token(t Token) Token {
	if t <= 0 || t > math.MaxInt64-b.base {
		return 0
	}
	return t + b.base
}
