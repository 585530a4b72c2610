// Package locker hands out leases on named locks, with fencing tokens, over the lock service of your
// choice.
//
// A [Locker] is opened by URL (or made by the package of a backend). Acquire waits for a lock by its name
// and returns a [Lease]: one holding of the lock, by one holder, for a limited time.
//
//	l, err := locker.Open(ctx, os.Getenv("LOCKER_URL"), locker.Correctness)
//	…
//	err = locker.Do(ctx, l, "invoices/42", func(ctx context.Context, lease locker.Lease) error {
//		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//			if err := fencepg.Claim(ctx, tx, "invoices/42", lease.Token()); err != nil {
//				return err // fence.ErrStale: a holder with a larger token was here, and this process is the late one
//			}
//			… // read and write in tx
//		})
//	})
//
// # Backends
//
// The scheme of the URL names the backend, whose package must be imported to make the scheme known. Its
// function New makes a Locker without a URL, for example with a client that the program has already.
//
//   - membackend, mem://: this process alone, for unit tests
//   - filebackend, file:///DIR: the processes of one machine
//   - redisbackend, redis:// and rediss://: one Redis or Valkey server, also with Sentinels and in a Cluster
//   - redlockbackend, redlock:// and redlocks://: several independent Redis servers
//   - etcdbackend, etcd:// and etcds://: an etcd cluster
//   - zkbackend, zk:// and zks://: a ZooKeeper ensemble
//   - pgbackend, postgres://: a Postgres database
//
// For example:
//
//	import _ "github.com/fencedlock/locker/pgbackend" // makes postgres:// known
//
// # What a lease is
//
// If a crashed holder kept its lock, nobody could ever get it again. So a distributed lock is lent for a
// time: the service takes it back when it has heard nothing from the holder for the TTL. While the holder
// lives, this package renews the lease in the background, at a third of the TTL. A lease speaks the
// language of [context.Context]: Deadline is the moment at which it is lost unless it is renewed before;
// Done is closed when it ends; Err is nil only while it is held.
//
// The deadline is the earliest moment at which the service could let another holder in, as seen from this
// process. It is counted from the moment before the last acknowledged request was sent, less an allowance for
// clocks that run at different speeds. So a holder that is cut off from the service learns that it has lost
// the lock before anybody else can have it, whatever the network does, as long as the service keeps its own
// promises (Exclusion and Tolerance of [Guarantees]). The clock is one that goes on while
// the machine sleeps. But no clock of a virtual machine counts a pause that its host makes. There the holder
// learns of the loss when its next renewal is answered, up to a third of the TTL after the pause.
//
// # When Done closes
//
// Stop: another holder may have the lock. Stop the work first, and release then. [WithLease] turns the end of a
// lease into the end of a context, and [Do] does so for a function. Err says why the lease ended: it matches
// [ErrReleased] after Release or Close, otherwise [ErrLost] together with the cause. A lost lease never comes
// back; acquire the lock again.
//
// # Why a token
//
// Done closes in time only for a process that runs. A process may be paused between its last look at the
// lease and its write: its virtual machine moves, its laptop sleeps, it collects garbage for long, it gets
// SIGSTOP. When it wakes it will write, though another holder may have had the lock for minutes. No lock
// service can prevent that. The storage can: each lease has a [Token], larger than the token of every earlier
// lease on that name, and a storage that remembers the largest token it has seen refuses a smaller one. This
// is called fencing. Give the token to the storage before the first read of the critical section, and with
// every write. (The idea and the word are from Martin Kleppmann's "How to do distributed locking", 2016;
// sequencers in Google's Chubby, 2006, were first.)
//
// Without fencing a lock is for efficiency: it saves doing the same work twice, most of the time. With
// fencing it is for correctness. Guarantees says what a backend promises; [Require] and [Open] check that
// against what the program needs.
//
// # Held is not broken
//
// When Acquire fails, its error says which of three things happened. [ErrHeld]: the service works, and the lock
// isn't free. A context's error: the caller gave up; a wait that timed out matches [ErrHeld] and
// [context.DeadlineExceeded], and one whose service gave no answer, or none any more, matches [ErrNoAnswer] in
// place of ErrHeld. Any other error: the service failed. In all three cases the lock is not yours. What the
// attempt may have left on the service is removed in the background, with retries, until the service has
// confirmed it.
//
// # What is the same everywhere, and what is not
//
// On every backend: a lease has one holder; two acquisitions are two holders, also in one process (a lock is
// not reentrant); only the holder's own lease can release the lock; Release works with a context that is over,
// and may be repeated; names obey one rule ([ValidName]); errors match the same values.
//
// Another URL, and so another backend, changes the [Guarantees]: what happens when servers or their data are
// lost, the order of waiters, what ends the lease of a dead holder and when, and how long an acquisition
// takes. It also changes the tokens: tokens of different backends don't compare.
package locker

import (
	"context"
	"strconv"
	"time"
)

// Locker hands out leases on locks. It is safe for concurrent use.
type Locker interface {
	// Acquire waits until the lock called name is granted or ctx is done. ctx covers the waiting alone: its
	// end doesn't end the lease.
	//
	// Locks are not reentrant: a holder that acquires its lock again would wait for itself. If ctx comes from
	// the [WithLease] of a lease that this locker has granted on that name, and the lease is still held, the
	// call fails at once with [ErrHeldByCaller]. A ctx that never ends, as from [context.WithoutCancel], isn't
	// checked for leases: such a call may outlive the lease, so it waits. A ctx with a time limit is checked.
	//
	// Bad arguments ([ErrName], [ErrOption], [errors.ErrUnsupported]) and a ctx that has ended fail before
	// anything is sent. What only the service can judge, such as a TTL out of its bounds, fails at the first
	// request, and matches ErrOption as well. [ErrHeld] says that the lock isn't free, [ErrClosed] that
	// the locker was closed. If the caller gave up, the error matches ctx's error and its cause. Any other error
	// is the service's, or [ErrTooManyTTLs]. The error is an [*Error].
	//
	// A first request without an answer ends the call after some seconds, also if ctx has no end: each service
	// has a time limit for that, and the error matches [ErrNoAnswer] or is the client's. (Files have none: a
	// file system may hang.) Once the service has said that the lock is held, the call may wait for as long as
	// the service is silent, because it may still have its place in the queue. Only the end of ctx bounds that.
	Acquire(ctx context.Context, name string, opts ...Option) (Lease, error)

	// Guarantees returns what this locker promises. It doesn't change during the locker's life.
	Guarantees() Guarantees

	// Close ends all leases of the locker (their Err matches [ErrReleased] and [ErrClosed]), wakes its
	// waiters with ErrClosed, removes from the service whatever is still to be removed, and frees what the
	// locker opened. A client that was handed to it stays open. Close waits until the last minimum hold is
	// over ([WithMinHold]), and from then on for about 15 seconds at most. It returns an error that matches
	// [ErrUnconfirmed] when a removal could not be confirmed in that time, and the backend's when what it opened
	// could not be closed. A second call waits for the first and returns its result.
	Close() error
}

// Lease is one holding of a lock, from its grant to its end. It is safe for concurrent use.
type Lease interface {
	// Name is the name of the lock.
	Name() string

	// Token is the fencing token. It is fixed from the grant on, also after the end of the lease.
	Token() Token

	// Deadline is when the lease is lost unless it is renewed before. Background renewal moves it. The zero
	// time says that this lease never ends by time; [Guarantees] says what ends it then.
	Deadline() time.Time

	// Done is closed when the lease ends, at the deadline at the latest. If the machine sleeps at the deadline,
	// Done is closed up to a second after it wakes; Err notices at once.
	Done() <-chan struct{}

	// Err is nil only while the lock is held. Later it matches [ErrReleased], or [ErrLost] together with the
	// cause, and doesn't change any more. It reads the clock: after the deadline it is not nil, even if this
	// process was stopped and has only just woken up. (It is different if the host has paused the virtual machine:
	// no clock of the guest counts that time.) Err is cheap (under a microsecond), so look at it before each step
	// of the work.
	Err() error

	// Renew asks the service to renew the lease now. Background renewal goes on as before. It returns nil
	// when the service has confirmed the renewal, and the lease's Err when the lease has ended. With any other
	// error the renewal isn't confirmed, and the lease may still be held. The error is the service's, or matches
	// [ErrNoAnswer]: the call ends after a quarter of the TTL, or after 5 seconds if that is shorter. ctx covers
	// the call alone; if it ends before, the error matches its error and its cause as well.
	Renew(ctx context.Context) error

	// Release ends the lease and gives the lock back. It returns nil when the removal is confirmed, an error
	// that matches [ErrLost] when the lease had been lost before, and otherwise one that matches
	// [ErrUnconfirmed], together with the service's error or [ErrNoAnswer]. Then the removal goes on in the
	// background, and the lock ends with its TTL at the latest, if it has one. Before the end of a minimum hold ([WithMinHold]) Release returns nil at once,
	// and the lock is given back later.
	//
	// Release takes from ctx its values, for tracing, and nothing else: it works with a ctx that is over, and
	// has its own timeout of 5 seconds, or of the TTL if that is shorter. It may be repeated, and returns the
	// same result again; if the removal isn't confirmed, a repeated call asks for it again.
	Release(ctx context.Context) error
}

// Token is a fencing token: positive, unique, and larger than the token of every lease on the same name that
// was granted before. ([Guarantees].Fencing says for how long. On redlock it is larger than every token that was
// returned before this acquisition began, whatever clocks do; for leases that were granted meanwhile it rests on
// clocks, as exclusion does.) It uses the whole range of
// an int64, which is more than the numbers of JavaScript, Lua or JSON hold exactly (2^53).
type Token int64

func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// As finds what a backend offers for its leases beyond [Lease], such as a comparison for the caller's
// own transaction. It looks at the lease itself and then through the decorators around it, by their
// method Unwrap() Lease or Unwrap() any. A decorator of leases needs one of them: without it, [Slot]
// doesn't know a permit, package fence claims for the permit's name in place of its slot, and a nested
// Acquire of the same lock waits for itself in place of [ErrHeldByCaller].
func As[T any](lease Lease) (T, bool) {
	for v := any(lease); v != nil; v = below(v) {
		if t, ok := v.(T); ok {
			return t, true
		}
	}
	var zero T
	return zero, false
}

// below is what a decorator is around; nil: nothing, or it doesn't say.
func below(v any) any {
	switch u := v.(type) {
	case interface{ Unwrap() Lease }:
		return u.Unwrap()
	case interface{ Unwrap() any }:
		return u.Unwrap()
	}
	return nil
}

// AsLocker finds what a backend offers beyond [Locker], such as the methods of its own type, in what [Open]
// returned. It looks at the locker itself and then through the decorators around it, by their method
// Unwrap() Locker.
//
// A decorator that only observes, for logs or metrics, has that method. A decorator that changes what
// names or tokens mean must not have it: [TokenBase], and the prefix of package middleware. Below a
// prefix, the backend's own methods would lock another name than the program's other calls. Below a
// token base they would give out tokens without the base, which are smaller than what the storage has
// seen.
//
// A decorator that changes names has the methods of [Observable] itself, if it passes them on, and the
// method Observed() Locker. That returns the locker below, in which locks have the names of the events.
// Package otellocker looks for it, to ask who holds a lock.
func AsLocker[T any](l Locker) (T, bool) {
	for l != nil {
		if t, ok := l.(T); ok {
			return t, true
		}
		u, ok := l.(interface{ Unwrap() Locker })
		if !ok {
			break
		}
		l = u.Unwrap()
	}
	var zero T
	return zero, false
}
