// Package driver is what the author of a backend implements, and the engine that makes a
// [locker.Locker] of it.
//
// A backend is a [Driver]: operations on a service. It returns a [Lock] for each acquisition, and
// [New] does the rest: deadlines, renewal, waiting, cancellation, loss, clean-up and Close exist
// once, in the engine. A driver starts no goroutines unless its client needs them, has no clock but
// [Stamp] and [Now], and returns the raw errors of its client; the engine adds operation, backend
// and name.
//
// How much work that is depends on the service (CONTRIBUTING.md has the sizes of the backends here):
//
//   - Where each lock is a record of its own with an expiry, and waiting may be polling, a driver
//     is small: one conditional write for each of acquire, renew and release. A hundred lines are
//     realistic; see the example of this package, and examples/backend. Where all callers share one
//     TCP connection, and no client library hides its faults, see examples/tcpbackend.
//   - Where many locks share a session or a connection, where waiters are notified, or where the
//     client library has behaviour that must be worked around, a driver is a project. Most of its
//     code answers one question: what is true after a request whose reply was lost? Package
//     driver/kit has what such drivers share, and the client's work-arounds belong in a package
//     below the driver.
//
// # Obligations
//
// In the order in which an author meets them, with the reason for each:
//
//  1. Lock does no I/O. It refuses what it knows the service can't do, so that invalid arguments
//     fail before anything is queued or sent. Its errors match [locker.ErrOption] if another value
//     would do (a TTL out of bounds), and [errors.ErrUnsupported] if none would. What only the
//     service knows is refused by the first Acquire, with the same kind of error. Lock draws the
//     owner, a new random id of 128 bits ([NewOwner]). Every later operation on the service checks
//     the owner, because a name alone can't distinguish a holder from its successor. (etcdbackend
//     checks the create revision of its key instead, which no other key of a cluster has.) From the
//     grant on the owner stays the same; from [ErrQueued] on as well if the place in the service's
//     queue carries the owner. A driver whose place is the Locker's (redlock), or that is polled, may
//     draw a new one for each attempt. A request may be for a slot of the name in place of its lock
//     ([locker.Request], Slot). A driver that declares [locker.FeatureSlots] gives each slot a key
//     that no name and no other slot has, and knows nothing else of permits; kit.SlotText writes a
//     slot.
//  2. The first call of Acquire answers without waiting: granted, held, or failed. So the engine
//     can distinguish "held" from "no answer" for all waiters after this one, and a request with
//     NoWait is the same request.
//  3. The token of a grant is unique, and larger than the token of every lease on the name that was
//     granted before (case E44 of the suite). So it is drawn when the lock is the acquisition's, or
//     in an order in which locks are granted, such as a queue's. One that a polled acquisition draws
//     before it asks for the lock is too small when others have been granted it in the meantime: the
//     storage then refuses the holder. It is read once, with the grant: a token that is read again
//     later may be the successor's. (With [locker.FencingNone] it need only be unique.)
//  4. Base is a [Stamp] that was taken before a request was sent: the last acknowledged request
//     that restarted the expiry of what the lock is attached to now (its key, its session or its
//     connection). Base is never the time of a reply, because the service began to count before it
//     replied. On a shared session, Base is the session's, not the acquisition's. A Base stays true
//     once it was returned: a driver moves a lock only to something whose expiry was restarted
//     later, and where that isn't possible, it calls lost.
//  5. TTL is what is in force: at least what was asked for, more where the service rounds up, and
//     never less. It is never longer than the service keeps the lock.
//  6. Only Acquire creates. Renew and a late Release must not bring back a lock that was released
//     or lost, so they change only what still has their owner. A driver reports a lost place in the
//     queue by lost; the engine then begins a new acquisition, and the caller's wait goes on.
//  7. Release removes whatever this acquisition may have left, and is called until it returns nil.
//     Nil is a promise: nothing of this acquisition exists on the service, and no request under way
//     can create it. A request whose reply was lost may still be executed. A driver whose client
//     can't rule that out leaves something on the service that stops the request (a tombstone, a
//     guard key), or ends the session. When the lock is free for others, but something may still
//     exist that keeps nobody out, the error is a [*PartialReleaseError]. No error of Release, or of
//     Acquire, reports a loss: where one matches [locker.ErrLost], the engine replaces it by an
//     error with the same text that doesn't match it.
//  8. Every call returns, always: with its context, or, where the client ignores contexts, within
//     limits of the driver's own that are far below a third of the TTL. The error of a limit of its
//     own matches [locker.ErrNoAnswer], and no error of a context. The first call of Acquire ends
//     within 15 s also if its context has no end. The engine survives a call that is late, but can't
//     renew that lock in the meantime. Where Acquire and Release return at once when their context
//     ends, the backend declares it ([Config.ObeysContext]), and the engine calls them on the
//     caller's goroutine. The first Lock of each call of [locker.Locker.Acquire] is always called
//     there. If the driver panics on that goroutine, the caller may recover: the call counts as one
//     that has failed, and what the acquisition may have left is removed. Any other panic of the
//     driver ends the process.
//  9. A client's silent retries are switched off or made harmless: a request that is sent twice may
//     be executed twice, the second time after its clean-up.
//  10. lost may be called at any time, even before Lock has returned, more than once, from any
//     goroutine, and with the driver's mutexes held. Calls that come too late are ignored.
//  11. A driver whose leases never end by time (a [Config.TTL] of 0) keeps reachable what holds its
//     locks. The engine has no timer for such a lease, so if a program forgets the lease and the
//     Locker, the garbage collector takes both, and must not free the lock.
//
// # Which calls run at the same time
//
// For one Lock:
//
//   - Acquire and Release never overlap, and no two calls of Release do. Release comes after the
//     last Acquire has returned, perhaps long after the caller has gone.
//   - Renew in the background begins when Acquire has returned ErrQueued or a grant. It may overlap
//     the next Acquire, and may begin just after that has returned that the place is gone.
//   - Renew may overlap Release, and may begin just after Release did or even just after it has
//     returned.
//   - Renew may overlap another Renew that a user called or with which the engine verifies a grant.
//     Two renewals in the background never overlap.
//
// For different Locks all calls may overlap, also for Locks with the same name: a holder and the
// next waiter, a request with NoWait, a removal. A request for one Lock isn't held back until another
// has its answer: [locker.AcquireAll] asks for five free locks in about the time that one takes (case
// L5 of the suite). A client with one request at a time needs several connections.
//
// Driver.Close is called once, and no call begins after it. When the time for closing is up, calls
// may still be under way: then Close makes them return. The engine calls no method of a driver
// while it holds a mutex of its own.
//
// # What a driver may have in addition
//
// A Driver may be an [Inspector], a [Breaker] and a [TokenReader], and a Lock an [Extender]. The engine
// finds out at run time. A method with other parameters or results compiles, and then the Locker
// can't do what it is for. So let the compiler look:
//
//	var _ driver.Inspector = (*myDriver)(nil)
//	var _ driver.Breaker = (*myDriver)(nil)
//	var _ driver.TokenReader = (*myDriver)(nil)
//	var _ driver.Extender = (*myLock)(nil)
package driver

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
)

// Driver is what one Locker knows of its service.
type Driver interface {
	// Guarantees says what the leases of this driver promise. It does no I/O.
	Guarantees() locker.Guarantees

	// Lock prepares one acquisition, without I/O. req.TTL is zero only if the driver's default is
	// zero. lost reports to the engine that this acquisition is dead, and why: before the grant,
	// the engine cancels Acquire's context with that cause; after the grant, the lease is lost.
	Lock(req locker.Request, lost func(cause error)) (Lock, error)

	// Renew asks the service, in as few requests as possible, whether each of locks still exists,
	// and restarts the expiry of what it is attached to. The locks are held or queued, and all were
	// asked for with the same TTL.
	//
	// Renew calls report for each lock as soon as its answer comes, from any goroutine, so that one
	// session without an answer delays no other lock. It may hold the driver's mutexes while it calls
	// report, except those that methods of the reported error take. It asks nothing more about a lock
	// that it has reported. It reports the new Base, which has no meaning for a queued lock, or an
	// error. An error that matches [locker.ErrLost] is final. Any other error leaves the lease as it
	// was, and the engine tries again. A lock without a report counts as failed.
	//
	// When ctx has ended, a driver may report that a lock has no answer, return, and keep waiting for
	// the answer. If it comes, the driver reports it as well, perhaps while another Renew is under way.
	// The answer counts if the lease is still held, or if the engine still verifies its grant.
	//
	// ctx ends after a quarter of the TTL, or after 5 s if that is less or there is no TTL. It never
	// ends by a caller's cancel, which could cost the other leases on a shared connection.
	Renew(ctx context.Context, locks []Lock, report func(i int, base Instant, err error))

	// Close ends everything that the driver opened: sessions, subscriptions, connections,
	// goroutines. ctx ends after 5 s.
	Close(ctx context.Context) error
}

// Lock is one acquisition: from its first request to the confirmed removal of everything that it
// left.
type Lock interface {
	// Acquire is called until it grants or fails. The first call answers without waiting. It
	// returns one of these:
	//
	//   - a Grant;
	//   - [ErrQueued]: the acquisition is in the service's queue, or will be with the next call. The
	//     next call blocks until the grant;
	//   - a [*HeldError], or another error that matches [locker.ErrHeld]: the acquisition has left
	//     nothing that keeps anybody out. The engine calls again, after a pause that AskWithin
	//     bounds and AskWhen ends;
	//   - the service's error. Then nothing is known, and the acquisition fails.
	//
	// A request with NoWait gets one call, and must not queue.
	//
	// ctx has no deadline of its own. It ends when the caller gives up, when the Locker is closed, and
	// when the driver has reported this acquisition as lost.
	Acquire(ctx context.Context) (Grant, error)

	// Release removes what this acquisition has left, granted or not. It follows the last Acquire
	// and is called, with growing pauses, until it returns nil. It isn't called when Acquire never
	// was. It does no I/O where nothing can exist.
	//
	// ctx ends after the TTL, or after 5 s if that is less or there is no TTL; earlier when a Close
	// of the Locker has less time left.
	Release(ctx context.Context) error
}

// Extender is implemented by a Lock that offers its holder more than [locker.Lease]. [locker.As]
// finds it.
type Extender interface {
	// Extension returns what is offered. It must offer no way to acquire, renew or release the
	// lock.
	Extension() any
}

// Grant is a lock that was granted.
type Grant struct {
	Token locker.Token
	Base  Instant       // send time of the request that restarted the expiry; see obligation 4
	TTL   time.Duration // in force; 0: it never ends by time
}

// ErrQueued is the error of an Acquire that found the lock held and is in the service's queue, or
// will be with the next call: the next Acquire blocks. It matches [locker.ErrHeld].
var ErrQueued = fmt.Errorf("%w; queued", locker.ErrHeld)

// HeldError is the error of an Acquire that found the lock held and left nothing in the service's
// queue. It matches [locker.ErrHeld].
//
// AskWithin is an upper bound of the pause before the engine asks again; 0: there is none. The
// engine's own pause is 5 ms at first and doubles with each answer, up to 320 ms. AskWithin makes it
// shorter, but not shorter than 5 ms. Each pause is random, from half of that to one and a half times
// as long. So the longest one, which belongs to the Slack of [locker.Expiry], is 3/2 of AskWithin, and
// never more than 480 ms.
//
// AskWhen ends the pause when it is closed: the engine asks again 7.5 ms later at most. nil: nothing
// ends it. It is for a change after which the next answer is another one, such as a subscription
// without which a waiter can't queue.
//
// Why says what is wrong if the waiter has no place in the service's queue, though others have one;
// nil: nothing is. Its text is in the error of a caller whose time runs out.
type HeldError struct {
	AskWithin time.Duration
	AskWhen   <-chan struct{}
	Why       error
}

func (e *HeldError) Error() string {
	if e.AskWithin == 0 {
		return locker.ErrHeld.Error()
	}
	return fmt.Sprintf("%v; ask again within %v", locker.ErrHeld, e.AskWithin)
}

// Is reports whether target is [locker.ErrHeld].
func (e *HeldError) Is(target error) bool { return target == locker.ErrHeld }

// PartialReleaseError is the error of a Release after which the lock is free for others, though
// something of the acquisition may still exist where it keeps nobody out, such as on one server of
// a minority. The holder's Release returns nil, and the engine continues to call Lock.Release in
// the background.
type PartialReleaseError struct {
	Err error

	// Pending: nothing has failed since the call before, and answers are still to come. Statistics
	// and observers don't count such a call as a failure. If an answer doesn't come in time, or is
	// an error, a later call says so without Pending.
	Pending bool
}

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
