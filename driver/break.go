package driver

import (
	"context"
	"errors"

	"github.com/fencedlock/locker"
)

// Breaker is implemented by a Driver whose service can take a lock away from its holder.
// [locker.Guarantees], field Break, says how the holder learns of it. The obligations:
//
//  0. With breach.Slot all of this is about that slot of the name, in place of its lock. The engine
//     asks only a driver that declares [locker.FeatureSlots].
//  1. One request decides, on the service, that the lease with this token holds the lock, and
//     changes it. If it doesn't hold the lock, nothing changes, and the error matches
//     [locker.ErrNotHolder]. Only the service's own answer may say that. A request that fails, or has
//     no answer, returns its error, which is another one.
//  2. Without breach.AtOnce the lease is marked with the breach ([FormatBreach]), and nobody is let
//     in. It stays held for all others, as it was: waiters stay where they are, and what is left of
//     its expiry is neither shortened nor prolonged. From the mark on, no request of the holder
//     restarts that expiry or takes the mark away: no renewal, no repeated Acquire, no move to
//     another session. Only two things end a marked lease: its expiry, and the holder's Release,
//     which recognises the owner in spite of the mark, and hands the lock over as always.
//  3. The holder's driver reports the mark with [Broken] and [ParseBreach], as soon as it sees it:
//     by lost where the service pushes it, and in any case by the report of its next renewal. (The
//     engine then ends the lease and calls Release.) So a driver must not conclude, from a report of
//     a mark, that nothing of the lock exists. A mark that can't be read is a mark all the same. An
//     acquisition that was granted on the service counts, whether or not Acquire has returned.
//  4. With breach.AtOnce the lease is removed, and the first waiter is granted the lock. What the
//     holder sends later, or has sent, doesn't bring the lease back, and doesn't touch its successor.
//     The breach is left where the holder's next renewal or push finds it, for as long as a TTL,
//     if the service has such a place. Otherwise the holder sees a lease that is gone.
//  5. Where the end of the lease ends other leases as well, they are counted before. If there are
//     any, and breach.WithOthers isn't set, nothing changes, the error matches
//     [locker.ErrOption], and the Effect with it says how many (Others).
//  6. A service may learn the token of a lease with its first renewal. Until then the error matches
//     neither [locker.ErrNotHolder] nor [locker.ErrNoBreaker], and tells the caller to try again when
//     Inspect shows the token.
//  7. A lease that is marked already keeps its mark, and the answer is the same as to the first
//     call. A call with AtOnce ends it. So a request may be executed twice.
//
// Whatever a driver can't do because of its service, its version or its rights, it refuses with an
// error that matches [locker.ErrNoBreaker], and says what is missing.
type Breaker interface {
	// Break takes the lock called name away from the lease with this token, which is larger than
	// zero. breach is valid and complete ([locker.ResolveBreach]). Effect.Within is how long the
	// lease lasts on the service unless it is released, without the slack of
	// [locker.Guarantees], which the engine adds. It is 0 if the lease has ended: with AtOnce, or
	// because its holder has seen the mark already. It is -1 if nobody knows for how long the
	// lease lasts, as for one that never ends by time. Break returns when ctx ends, which may be a
	// caller's context, or within limits of the driver's own.
	Break(ctx context.Context, name string, token locker.Token, breach locker.Breach) (locker.Effect, error)
}

var _ locker.Breaker = (*engine)(nil)

// Break asks the driver, if it is a Breaker.
func (e *engine) Break(ctx context.Context, name string, token locker.Token, breach locker.Breach) (locker.Effect, error) {
	breach, err := locker.ResolveBreach(name, token, breach)
	if err != nil {
		return locker.Effect{}, e.fail("break", name, err)
	}
	if err := e.withoutSlots(breach.Slot); err != nil {
		return locker.Effect{}, e.fail("break", name, err)
	}
	b, ok := e.driver.(Breaker)
	if !ok {
		return locker.Effect{}, e.fail("break", name, locker.ErrNoBreaker)
	}
	effect, err := callOnce(ctx, e, func(ctx context.Context) (locker.Effect, error) {
		return b.Break(ctx, name, token, breach)
	})
	switch {
	case errors.Is(err, locker.ErrOption): // AtOnce would end other leases
		return locker.Effect{Others: effect.Others}, e.fail("break", name, err)
	case err != nil:
		return locker.Effect{}, e.fail("break", name, err)
	}
	if effect.Within > 0 {
		effect.Within += e.driver.Guarantees().Expiry.Slack
	}
	return effect, nil
}
