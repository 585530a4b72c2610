package pgbackend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/pgsession"
)

// What many locks do on the connection that they share: try for a lock together with its token, and
// give it back. All of it goes through conn.request. A request that meets few others goes alone, by
// function calls (functions.go). Under load many requests are joined in one statement (groups.go).
// For the server, that is more work than a few function calls, because the statement has to be
// parsed and planned. It is less work than many, because there is only one transaction: at the end
// of each transaction the server looks through all locks of the session, which takes 30 ns for each
// lease. Where no function calls get through (some poolers refuse them, or don't know them), single
// requests are statements as well.

// request is what one lock wants of the shared connection.
type request struct {
	kind kind
	key  key

	mu          sync.Mutex // held while the request is handed to the session
	isHanded    bool       // it was
	isWithdrawn bool       // it won't be
}

// reply is the outcome of a request.
type reply struct {
	token locker.Token    // 0 if somebody else has the lock
	sent  driver.Instant  // when it was asked for
	late  *pgsession.Call // the request's own, whose answer has not come in time; nil: none is to be waited for
	err   error
}

type kind int

const (
	take       kind = iota // the lock, if nobody has it, and a token
	takeToken              // a token alone
	give                   // the lock back
	giveShared             // the lock back that is held in shared mode
	giveEither             // the lock back that is held in one of the modes, or in both
)

func (k kind) givesBack() bool { return k >= give }

const (
	maxCall   = 2 * time.Second // bounds one request or statement, and its answer
	groupSize = 64              // requests in one message, at most
	mostLanes = 16              // messages under way where the round trip is long

	fewRequests = 5   // up to so many requests that are sent together go by function calls
	manyLeases  = 256 // from so many leases of the connection on, all requests go by statements
)

// makeLanes makes the lanes of the shared connection. The messages of both go on that one
// connection.
func (c *conn) makeLanes() {
	o := kit.LaneOptions{MaxWidth: mostLanes, Size: groupSize, Limit: maxCall, CallersSend: true}
	c.calls = kit.NewLanes(c.unlessPassedOver(c.sendSome), o)
	o.Width = 1 // the groups should be large
	c.groups = kit.NewLanes(c.unlessPassedOver(c.sendGroup), o)
}

// request executes a request. It returns when it has the outcome, or when ctx ends. If the error
// doesn't match kit.ErrNotSent the request may be executed later than that, but before all requests
// of this connection that come after this one. So a request can't overtake its own clean-up, and
// take a lock that nobody knows of, or free one that was taken since.
func (c *conn) request(ctx context.Context, r *request) reply {
	lanes := c.groups
	if c.takesFunctions && c.leases.Load() < manyLeases {
		lanes = c.calls
	}
	answer, err := lanes.Do(ctx, r)
	for err == nil && r.kind.givesBack() && errors.Is(answer.err, errWithdrawn) { // with others: see unlessPassedOver
		r = &request{kind: r.kind, key: r.key}
		answer, err = lanes.Do(ctx, r)
	}
	if err == nil {
		return answer
	}
	if !errors.Is(err, kit.ErrNotSent) && r.withdraw() {
		err = errors.Join(err, kit.ErrNotSent)
	}
	return reply{err: kit.Overdue(err)}
}

// sendSome sends a few requests by function calls, and many by a statement.
func (c *conn) sendSome(ctx context.Context, some []*request) ([]reply, error) {
	if len(some) <= fewRequests {
		return c.callEach(ctx, some), nil
	}
	return c.sendGroup(ctx, some)
}

// hand hands a request to the session by begin, unless it was withdrawn. Another goroutine than the
// caller's may do that, while the caller leaves.
func (r *request) hand(begin func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isWithdrawn {
		return errWithdrawn
	}
	r.isHanded = true
	return begin()
}

var errWithdrawn = fmt.Errorf("%w: %w", locker.ErrNoAnswer, kit.ErrNotSent)

// withdraw reports whether the request will not be handed to the session. If it was, what is sent
// from now on comes after it.
func (r *request) withdraw() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isWithdrawn = !r.isHanded
	return r.isWithdrawn
}

// afterRefusal is called with the error of a message. If the server has refused the message, and no
// lease is lost by that, the connection is given up: a new one may find that the sequence is
// another one now, for example. Otherwise it keeps its leases, and if no token can be had on it any
// more, another connection is made for what is to come.
func (c *conn) afterRefusal(err error) error {
	switch {
	case !pgsession.Refused(err):
	case pgsession.Says(err, codeNoMemory):
		return tableIsFull(err)
	case c.leases.Load() == 0 && !pgsession.Says(err, codeLockWait):
		c.End(err)
	case pgsession.Says(err, codeInternal, codeNoTable): // the sequence is another one now, which this connection will never find
		c.resign()
	}
	return err
}

// try asks for a lock.
func (c *conn) try(ctx context.Context, k key) (locker.Token, driver.Instant, error) {
	r := c.request(ctx, &request{kind: take, key: k})
	return r.token, r.sent, r.err
}

// takeToken takes a token for a lock that is held by another session.
func (c *conn) takeToken(ctx context.Context) (locker.Token, error) {
	r := c.request(ctx, &request{kind: takeToken})
	if gone := driver.ContextError(ctx); gone != nil && errors.Is(r.err, locker.ErrNoAnswer) {
		return 0, fmt.Errorf("%w: %w", gone, r.err)
	}
	return r.token, r.err
}
