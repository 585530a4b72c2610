// Package fence is the other half of a fencing token: the check where the data lives.
//
// A lease can end while its holder believes in it, because the holder was paused. No lock service can
// prevent what such a holder writes next; the storage can. It keeps, for each resource, the highest token it
// has seen: the resource's mark. A claim raises the mark to the token of a lease. It fails with an error that
// matches [ErrStale] when the mark is higher. An equal token passes, because one lease may read and write many
// times.
//
// # Claim before the first read
//
// A check on writes alone is not enough. A stale holder's write can arrive between its successor's
// read and write. The stale token is still the highest that the storage has seen then, because the
// successor has not written yet; and the successor then overwrites what it never read. So a
// critical section claims first, and every write claims again in the same step as it writes:
//
//	lease, err := l.Acquire(ctx, "invoice/42")
//	…
//	claim the token        from here on no older holder can write
//	read
//	write, with the token  refused if a newer holder has claimed meanwhile
//
// The claim and the write must be one step of the storage; otherwise a newer claim can come in between. How
// that is done differs, so each storage has its own package:
//
//   - fencepg and fencesql: in the caller's transaction on Postgres;
//   - fenceredis: a script that claims and writes;
//   - fenceetcd: a comparison in the transaction that writes;
//   - [Memory]: under a mutex.
//
// Package fencetest is a test suite for your own storage. A function that has the lease in its context, as
// below [locker.Do], claims with ClaimFrom of the storage, which finds the token with [TokenFrom]. Where each write
// needs the token as well (the methods Do, Run and Commit), ClaimFrom returns it. In fencepg and fencesql it
// returns only an error: there the claim holds for the whole transaction, and later statements need no token.
//
// # Tokens
//
// They use all of an int64, so a storage must compare them exactly: the numbers of Lua, JavaScript and JSON end
// at 2^53. Tokens of different locks don't compare: a resource belongs to one lock, and that lock to one
// backend. The marks must be as durable as the data they guard, and live as long: restore the marks together
// with the data.
//
// The idea comes from the sequencers of Google's Chubby (Burrows, 2006) and Kleppmann's "How to do distributed
// locking" (2016); both show it for writes only.
//
// # When a mark may be removed
//
// A resource without a mark takes any token. So a mark that is deleted, or that expires, lets a stale holder
// in: not only while the lock is held, but for as long as a process lives that once had a lease on it. No TTL
// bounds that, because a process may be stopped for any time. Therefore:
//
//   - the mark outlives its resource: an object that was deleted and is created again is one resource. Keep
//     marks where the usual way to delete an object, such as by a prefix, doesn't reach them;
//   - a mark has no expiry, and is not in a store that evicts;
//   - marks are removed only when no process lives that has had a lease on the name before: after a restart of
//     all programs that use the lock, or after a time in which each of them was restarted. Until then the number
//     of marks grows with the number of names.
package fence

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencedlock/locker"
)

// ErrStale says that a holder with a larger token was here, so the caller is late. Its lease is lost, whatever it
// believes. Nothing was written.
var ErrStale = errors.New("fencing token is stale")

// StaleError is an [ErrStale] with the mark that was higher.
type StaleError struct {
	Resource string
	Token    locker.Token
	Highest  locker.Token // the mark
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("%v: %d is below %d, which %q has seen", ErrStale, e.Token, e.Highest, e.Resource)
}

// Is makes the error match [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Guard claims resources of one storage.
type Guard interface {
	// Claim raises the mark of a resource to token. When the mark is higher, it changes nothing and fails with an
	// error that matches [ErrStale]. An equal token passes. When Claim has returned nil, no write with a smaller
	// token gets in any more, also after a crash of the storage, if its data survives that.
	//
	// A resource's name must obey the rule of [locker.ValidName], and a token must be positive. Otherwise Claim
	// fails before any I/O.
	Claim(ctx context.Context, resource string, token locker.Token) error
}

// Check refuses a resource whose name breaks the rule of [locker.ValidName] (the error matches [locker.ErrName]),
// and a token that isn't positive. Guards call it first.
func Check(resource string, token locker.Token) error {
	if err := locker.ValidName(resource); err != nil {
		return fmt.Errorf("fence: resource: %w", err)
	}
	return CheckToken(token)
}

// CheckToken refuses a token that isn't positive. The tokens of leases are positive.
func CheckToken(token locker.Token) error {
	if token <= 0 {
		return fmt.Errorf("fence: invalid token %d: want the token of a lease, which is positive", token)
	}
	return nil
}
