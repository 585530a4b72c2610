package pgbackend

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/pgsession"
)

// A request by function calls: one or two calls, sent in one write. They are executed one after the
// other, as transactions of their own. Requests don't wait for the answers of earlier ones.
//
// A request for a lock takes the token with its second call, after the lock and whether or not the
// lock was free. If it wasn't, the value of the sequence is not used. If that call fails, the lock
// may be held without a token: the acquisition fails, and gives the lock back.

// callEach executes requests by function calls.
func (c *conn) callEach(ctx context.Context, some []*request) []reply {
	floor := c.d.largest.get()
	var few [fewRequests]*pgsession.Call
	calls, replies := few[:len(some)], make([]reply, len(some))
	for i, r := range some {
		if replies[i].err = c.AwaitSlot(ctx); replies[i].err != nil {
			continue
		}
		replies[i].err = r.hand(func() (err error) {
			calls[i], err = c.beginCalls(ctx, r)
			return err
		})
		if errors.Is(replies[i].err, errWithdrawn) {
			c.ReturnSlot()
		}
	}
	for i, r := range some {
		if calls[i] != nil {
			replies[i] = c.outcome(ctx, r.kind, calls[i], floor)
		}
	}
	return replies
}

// beginCalls sends the function calls of a request.
func (c *conn) beginCalls(ctx context.Context, r *request) (*pgsession.Call, error) {
	k, next := int64(r.key), pgsession.NextValue(uint32(c.tokens.serverID.sequence)) //nolint:gosec // an OID has 32 bits
	switch r.kind {
	case take:
		return c.BeginFunctions(ctx, pgsession.TryAdvisoryLock(k), next)
	case takeToken:
		return c.BeginFunctions(ctx, next)
	case giveShared:
		return c.BeginFunctions(ctx, pgsession.AdvisoryUnlockShared(k))
	case giveEither:
		return c.BeginFunctions(ctx, pgsession.AdvisoryUnlockShared(k), pgsession.AdvisoryUnlock(k))
	default:
		return c.BeginFunctions(ctx, pgsession.AdvisoryUnlock(k))
	}
}

// outcome waits for the answers to a request's calls. floor was the largest token when they were
// sent.
func (c *conn) outcome(ctx context.Context, kind kind, call *pgsession.Call, floor locker.Token) reply {
	if _, err := c.endIfSilent(call, c.WaitFunctions(ctx, maxCall, call)); err != nil {
		answer := reply{err: kit.Overdue(err)}
		if errors.Is(err, locker.ErrNoAnswer) && !errors.Is(err, kit.ErrNotSent) {
			answer.late = call
		}
		return answer
	}
	answer := reply{sent: call.Sent}
	value, err := call.Result(0)
	if err == nil && (kind == giveEither || kind == take && value != 0) {
		value, err = call.Result(1)
	}
	switch {
	case err != nil:
		answer.err = c.afterRefusal(err)
	case !kind.givesBack() && value != 0: // 0: somebody else has the lock; values of the sequence begin with 1
		answer.token, answer.err = c.admit(ctx, floor, value)
	}
	return answer
}

const (
	maxProbe      = 3 * time.Second / 2 // for the answer to the first function call of a connection
	maxLostProbes = 2                   // connections in a row that have not answered it
	probePause    = 10 * time.Minute    // after those, until the next one is tried: it may have been a slow moment
)

// lostProbes are the connections in a row whose first function call had no answer.
type lostProbes struct {
	count atomic.Int32
	last  atomic.Int64 // a driver.Instant
}

func (l *lostProbes) add() {
	l.last.Store(int64(driver.Stamp()))
	l.count.Add(1)
}

// pause reports whether no function call is tried for now.
func (l *lostProbes) pause() bool {
	return l.count.Load() >= maxLostProbes && driver.Stamp() < driver.Instant(l.last.Load()).Add(probePause)
}

var errNoFunctions = errors.New("a function call had no answer")

// probeFunctions finds out whether function calls get through to the server. A pooler that doesn't
// know them may refuse them, end the connection, or pass nothing on. So a statement follows the
// call: if only the statement is answered, that answer doesn't belong to a function call, which
// ends the session. If the call was refused, the connection is used without function calls. After
// any other failure it can't be used: the error matches errNoFunctions, and the caller makes
// another one.
func (c *conn) probeFunctions(ctx context.Context) error {
	if c.d.lostProbes.pause() {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, maxProbe)
	defer cancel()
	err := c.AwaitSlot(limited)
	var call *pgsession.Call
	if err == nil {
		call, err = c.BeginFunctions(limited, pgsession.BackendPID())
	}
	if err == nil {
		_, err = c.confirm(limited)
	}
	if err == nil {
		err = c.WaitFunctions(limited, maxProbe, call)
	}
	if err != nil {
		if ctx.Err() == nil { // otherwise the answer was not waited for
			c.d.lostProbes.add()
		}
		return fmt.Errorf("%w: %w", errNoFunctions, err)
	}
	c.d.lostProbes.count.Store(0)
	pid, err := call.Result(0)
	c.takesFunctions = err == nil && pid == c.PID
	return nil
}
