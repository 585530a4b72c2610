package pgbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/fencedlock/locker"
)

// The looks of Break. Those that come after a request have to say whether the lease has ended. It has, if
//
//   - nobody has the lock,
//   - or the holder has written another token,
//   - or no session that has the lock may have it by this lease.
//
// A session that has written no token may have it by this lease in two cases:
//
//   - The lease was seen on this session before. Its row may be there, and can't be read now.
//   - The lease was seen on a session with the gate, and this session has no gate. The first one is a
//     waiter's connection, so the lease may have moved to this one, and a lease that has moved has no
//     gate. Its next row is written up to a third of its TTL later.
//
// Any other session has the lock by another lease. A lease that was seen on a session without the gate
// never moves. A waiter that was granted the lock since then has the gate itself.
//
// In these two cases Break makes its request again, until it finds a token or its time is over. That may
// also be the next lease: one that was granted without a wait has no gate, and no row at first.
//
// All of this is true on one server. After a failover another one answers, which knows nothing of the
// lease, and a former primary that lives on may still have it. So Break fails then. (A copy of the server
// that goes on without a new timeline can't be distinguished from a restart.)

// saw notes where the lease is, by a look or by the answer to a request.
func (b *breaking) saw(server serverID, mayMove bool, sessions ...string) {
	b.server, b.mayMove, b.sessions = server, mayMove, sessions
}

// look reports whether the lease with the token has the lock, or may have it, and whether its row has a
// breach. If it doesn't hold it any more, and had it before, the error is nil.
func (b *breaking) look(ctx context.Context) (holds, isBroken bool, err error) {
	found, err := b.d.lookAt(ctx, b.key)
	if err != nil {
		return false, false, err
	}
	holder := found.statusOf(b.key, 0).Holder
	isKnown := holder == nil || holder.Token != 0
	switch {
	case b.sessions != nil && !found.server.isStill(b.server):
		return false, false, errTakenOver
	case holder != nil && holder.Token == b.token:
		b.saw(found.server, found.hasGate(b.key, holder.Session), holder.Session)
		return true, holder.Broken != nil, nil
	case b.isAsked:
		return !isKnown && b.mayHold(found), false, nil
	case b.isUnsure && (isKnown || !found.isOfLocker(b.key)): // it may have had the lock until that request
		return false, false, locker.ErrNoAnswer
	case isKnown:
		return false, false, locker.ErrNotHolder
	case !found.isOfLocker(b.key):
		return false, false, fmt.Errorf("%w: a transaction or another program has the lock; end its session, process %s", locker.ErrNoBreaker, holder.Session)
	}
	return false, false, errNoToken
}

// mayHold reports whether a session that has the lock may have it by the lease. None has written its token.
func (b *breaking) mayHold(found found) bool {
	return slices.ContainsFunc(found.holders(b.key), func(session string) bool {
		return slices.Contains(b.sessions, session) || b.mayMove && !found.hasGate(b.key, session)
	})
}

// holders are the sessions of Lockers that have the lock with a key, by their processes: two while a lease
// moves.
func (f found) holders(k key) (sessions []string) {
	for _, e := range f.entries {
		if _, isLocker := f.presence[e.pid]; e.key == k && !e.second && e.granted && isLocker {
			sessions = append(sessions, strconv.FormatInt(e.pid, 10))
		}
	}
	return sessions
}

// isOfLocker reports whether a Locker's session has the lock with a key.
func (f found) isOfLocker(k key) bool { return len(f.holders(k)) > 0 }

// hasGate reports whether a session has the gate of a key.
func (f found) hasGate(k key, session string) bool {
	return slices.ContainsFunc(f.entries, func(e entry) bool {
		return e.key == k && e.second && e.granted && strconv.FormatInt(e.pid, 10) == session
	})
}

var (
	// errNoToken says that nobody knows whether the lease with a token has the lock.
	errNoToken = errors.New("the holder has not written its token yet, and usually does so with its first renewal, after a third of its TTL; try again when Inspect shows the token")

	// errTakenOver says that the looks of one call were answered by two servers.
	errTakenOver = fmt.Errorf("%w from the server that the lease was on: another one has taken over, and answers now; if the former one lives on, so may the lease", locker.ErrNoAnswer)
)
