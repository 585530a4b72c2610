// Package driver is what the author of a backend implements, and the engine that makes a [locker.Locker] of it.
//
// A backend is a [Driver]: a thin file of operations on a service. It hands out a [Lock] for each acquisition, and
// [New] does the rest: deadlines, renewal, waiting, cancellation, loss, clean-up and Close exist once, here. A
// driver has no goroutines of its own unless its client needs them, keeps no clock but [Stamp], and returns the raw
// errors of its client; the engine adds operation, backend and name.
//
// # Obligations
//
// In the order in which an author meets them, with the reason for each:
//
//  1. Lock does no I/O. It refuses what it knows can't be served (a TTL out of bounds), so that bad arguments fail
//     before anything queues or is sent; what only the service knows is refused by the first Acquire with the same kind
//     of error. It draws the owner, a fresh random id of 128 bits ([NewOwner]). Every later operation on the service
//     checks it, because a name alone can't tell a holder from its successor. The identity is fixed from the grant, or
//     from [ErrQueued], on; a driver that is polled may draw a new one for each attempt.
//  2. The first call of Acquire answers without waiting: granted, held, or failed. So the engine can tell "held" from
//     "no answer" for everybody who queues behind it, and NoWait is the same request.
//  3. The token of a grant is larger than that of every lease on the name that was returned before this acquisition
//     began, unique, and read once, with the grant: a token that is read again later may be the successor's.
//  4. Base is [Stamp] from before the request was sent, of the last acknowledged request that restarted the service's
//     expiry of what the lock hangs on now: its key, its session, its connection. Never the time of a reply: the
//     service began to count before that. On a shared session it is the session's, not the acquisition's. A Base that
//     was handed out stays true: a lock is moved only to something whose expiry was restarted later, and where that
//     can't be kept, lost is called.
//  5. TTL is what is in force: at least what was asked, more where the service rounds up; never less.
//  6. None but Acquire creates. Renew and a late Release must not bring back a lock that was released or lost, so they
//     only touch what still has their owner. A place in the queue that was lost is reported by lost; the engine begins
//     a new acquisition, and the wait goes on.
//  7. Release removes whatever this acquisition may have left, and is called until it returns nil. Nil is a promise:
//     nothing of this acquisition stands, and nothing under way can put it there. A request whose reply was lost may
//     still be carried out; a driver whose client can't rule that out leaves something behind that stops it (a
//     tombstone, a guard key) or drops the session. When the lock is free for others but remains may stand where they
//     keep nobody out, the error is a [*PartialReleaseError].
//  8. Every call returns, always: within its context, or within limits of the driver's own far below a third of the TTL
//     where the client ignores contexts. The engine survives a call that is late, but can't renew that lock meanwhile.
//  9. A client's silent retries are switched off or made harmless: a request that is sent twice may be carried out
//     twice, the second time after its clean-up.
//  10. lost may be called at any time, also before Lock has returned, more than once, from any goroutine, and with the
//     driver's mutexes held; late calls are ignored.
//
// # Who calls what at the same time
//
// For one Lock: Acquire and Release never overlap, and neither do two calls of Release; Release comes after the last
// Acquire has returned, perhaps long after the caller left. Renew may overlap Acquire, once that has answered ErrQueued,
// and it may overlap Release, or come after it by a hair, and overlap a Renew that a user asked for or that proves a
// grant; renewals in the background don't overlap each other. For different Locks calls overlap freely, also when they
// have the same name: a holder and the next in line, a request with NoWait, a removal. Driver.Close is called once,
// when no other call is under way or, when the time for closing is up, while some still are: then it makes them return.
// No call comes after it. The engine calls nothing of a driver while it holds a mutex of its own.
package driver

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
)

// Driver is the contact of one Locker with its service.
type Driver interface {
	// Guarantees tells what leases of this driver promise. It does no I/O.
	Guarantees() locker.Guarantees

	// Lock prepares one acquisition, without I/O. req.TTL is zero only when the driver's default is. lost tells the
	// engine that this acquisition is dead, and why: before the grant it cancels Acquire's context with that cause,
	// after it the lease is lost.
	Lock(req locker.Request, lost func(cause error)) (Lock, error)

	// Renew asks the service, in as few requests as possible, whether each of locks still stands, and restarts what
	// it hangs on. Locks are held or queued. It calls report once for each as its answer comes, from any goroutine,
	// so that one hung session delays no other; after that it leaves the lock alone. It reports the new Base, which
	// has no meaning for a queued lock, or an error. One that matches [locker.ErrLost] is final; any other leaves the
	// lease as it was, and the engine tries again. A lock that isn't reported counts as failed. No report comes after
	// Renew has returned.
	//
	// All locks of a call were asked for with the same TTL. ctx ends by a time limit alone, never by a caller's
	// cancel, which could cost the other leases on a shared connection.
	Renew(ctx context.Context, locks []Lock, report func(i int, base Instant, err error))

	// Close ends what the driver opened: sessions, subscriptions, connections, goroutines.
	Close(ctx context.Context) error
}

// Lock is one acquisition: from its first request to the confirmed removal of all it left.
type Lock interface {
	// Acquire is called until it grants or fails. The first call answers without waiting. It returns a Grant; an
	// error that Is [locker.ErrHeld], as a rule [ErrQueued] or a [*HeldError]; or the service's error, and then nothing is known.
	//
	// After ErrQueued the acquisition has its place in the service's queue, or takes it with the next call, which blocks
	// until the grant. After a HeldError, or a bare ErrHeld, it leaves nothing in anybody's way, and the engine
	// calls again, in about RetryAfter or earlier. A request with NoWait gets one call, and must not queue.
	Acquire(ctx context.Context) (Grant, error)

	// Release removes what this acquisition has left, granted or not. It follows the last Acquire and is called, with
	// growing pauses, until it returns nil; not at all when Acquire was never called. No I/O where nothing can stand.
	Release(ctx context.Context) error
}

// Extender is implemented by a Lock that offers its holder something beyond [locker.Lease]; [locker.As] finds it.
type Extender interface {
	// Extension returns what is offered. It must not allow to acquire, renew or release.
	Extension() any
}

// Grant is a lock that was granted.
type Grant struct {
	Token locker.Token
	Base  Instant       // send time of the last acknowledged request that restarted the service's expiry
	TTL   time.Duration // what is in force; 0: it never ends by time
}

// ErrQueued is the error of an Acquire that found the lock taken and has, or takes with the next call, its place in the
// service's queue: the next Acquire blocks. It matches [locker.ErrHeld].
var ErrQueued = fmt.Errorf("%w; queued", locker.ErrHeld)

// HeldError is the error of an Acquire that found the lock taken and left nothing in the service's queue. It matches
// [locker.ErrHeld].
type HeldError struct {
	RetryAfter time.Duration // when to ask again; the engine may ask earlier
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%v; ask again in %v", locker.ErrHeld, e.RetryAfter)
}

// Is reports whether target is [locker.ErrHeld].
func (e *HeldError) Is(target error) bool { return target == locker.ErrHeld }

// PartialReleaseError is the error of a Release after which the lock is free for others, though something of the
// acquisition may still exist where it keeps nobody out: on one server of a minority. The holder is told that all is
// well, and the engine goes on calling Release in the background.
type PartialReleaseError struct{ Err error }

func (e *PartialReleaseError) Error() string {
	return "released, but remains may exist: " + e.Err.Error()
}

func (e *PartialReleaseError) Unwrap() error { return e.Err }

// NewOwner returns a random id of 128 bits, in hexadecimal.
func NewOwner() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
