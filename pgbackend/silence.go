package pgbackend

import (
	"context"
	"errors"
	"slices"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/pgsession"
)

// A connection may be dead without an end: something between drops what is sent, and nobody says so.
// The first that is known of it is a call without an answer. A server that is very slow looks the same.
//
//   - If no lease can be alive on the connection, it ends.
//   - Otherwise its leases stay, and their renewals go on there. But it is silent until the server is
//     heard again, and a silent connection is passed over: whatever can be asked on any shared
//     connection is asked on another one, which is made.
//
// A pool has two shared connections at most, so a server that is slow doesn't get more and more of
// them. When both are silent, they are used all the same. When the first one is heard again, it isn't
// replaced any more: it serves while the second one is silent.
//
// An acquisition whose request has had no answer stays on the silent connection, with its key, until
// that is answered there or the server's session is over. Another one for the same name, on the other
// connection, is in another session of the server: if the late request gets the lock, the server
// keeps that one out.

const longSilence = maxCall / 2 // of the server, while a call is under way

// exec executes a statement, and looks whether the connection is silent.
func (c *conn) exec(ctx context.Context, sql string) (*pgsession.Call, error) {
	return c.endIfSilent(c.Exec(ctx, sql))
}

// execUrgent is exec for renewals.
func (c *conn) execUrgent(ctx context.Context, sql string) (*pgsession.Call, error) {
	return c.endIfSilent(c.ExecUrgent(ctx, sql))
}

// endIfSilent ends a connection that has no answer, unless a lease may still be alive on it: those
// end a TTL after the last statement that was answered, which was sent before the one that has no
// answer. It returns what it is given.
func (c *conn) endIfSilent(r *pgsession.Call, err error) (*pgsession.Call, error) {
	if errors.Is(err, locker.ErrNoAnswer) {
		silence := c.Silence()
		switch {
		case c.leases.Load() == 0 && silence >= longSilence, silence > c.pool.ttl:
			c.End(errSilent)
		case silence >= longSilence:
			c.silent.Store(true)
		}
	}
	return r, err
}

// isSilent reports whether a call has had no answer, and the server hasn't been heard since.
func (c *conn) isSilent() bool {
	if !c.silent.Load() {
		return false
	}
	if c.Silence() >= longSilence { // what had no answer is under way until it has
		return true
	}
	c.silent.Store(false)
	return false
}

// passOver reports whether what can be asked on any connection is to be asked on another one: this one is
// silent, or its epoch is over, and there is another one, or one can be made. Then the pool has chosen that
// one, and has given this one up if its epoch is over.
func (c *conn) passOver() bool {
	return (c.isSilent() || c.isOfOldEpoch()) && c.pool.chooseUsable() != c
}

// sendRequests sends requests in one message, and returns the reply to each.
type sendRequests func(ctx context.Context, some []*request) ([]reply, error)

// unlessPassedOver wraps send for a connection that may be passed over while requests wait for a lane.
//
//   - A request that another connection can serve is movable. If the connection is passed over, it isn't
//     sent: it fails with errWithdrawn, and its caller asks on another connection.
//   - A request that gives a lock back can be sent only here, and is sent, also if the server is silent. In a
//     message with movable ones it is withdrawn with them, and request sends it again, in another message:
//     otherwise the callers of the movable ones would wait for its answer.
func (c *conn) unlessPassedOver(send sendRequests) sendRequests {
	return func(ctx context.Context, some []*request) ([]reply, error) {
		isMovable := func(r *request) bool { return !r.kind.givesBack() }
		if !slices.ContainsFunc(some, isMovable) || !c.passOver() {
			return send(ctx, some)
		}
		replies := make([]reply, len(some))
		for i, r := range some {
			r.withdraw()
			replies[i].err = errWithdrawn
		}
		return replies, nil
	}
}

// isLeasedInSilence reports whether the lock with a key is leased on a silent connection: then there is
// no need to ask.
func (p *pool) isLeasedInSilence(k key) bool {
	p.mu.Lock()
	shared := [...]*conn{p.shared, p.other}
	p.mu.Unlock()
	for _, c := range shared {
		if c != nil && c.isSilent() && c.isLeased(k) {
			return true
		}
	}
	return false
}
