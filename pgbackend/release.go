package pgbackend

import (
	"cmp"
	"context"
	"fmt"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/pgsession"
)

// Release removes what may be held on either connection. On each connection the lock is free when
// the connection's own session has answered, or has ended.
func (l *lock) Release(ctx context.Context) error {
	if err := l.lockMove(ctx); err != nil {
		return err
	}
	defer l.unlockMove()
	l.detach()
	if err := both(l.removeFromWaiter(ctx), l.removeFromShared(ctx)); err != nil {
		return err
	}
	l.leave()
	l.d.labels.ended(l)
	return nil
}

// both makes one error of two, of which each may be nil.
func both(one, two error) error {
	if one == nil || two == nil {
		return cmp.Or(one, two)
	}
	return fmt.Errorf("%w; %w", one, two)
}

// lockMove waits until no other goroutine moves the lock, or removes it.
func (l *lock) lockMove(ctx context.Context) error {
	select {
	case l.moveLock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return locker.ErrNoAnswer
	}
}

func (l *lock) unlockMove() { <-l.moveLock }

// removeFromShared gives the lock back on the shared connection. A repetition finds nothing to give
// back: nobody else has had the key on that connection meanwhile, because it is reserved.
func (l *lock) removeFromShared(ctx context.Context) error {
	l.mu.Lock()
	c, has := l.shared, l.sharedHas
	l.mu.Unlock()
	if c == nil {
		return nil
	}
	return l.removedFromShared(ctx, c, l.giveBack(ctx, c, has))
}

// giveBack gives the lock back on c. If the session doesn't hold it, it was given back before, and
// nothing happens. If the answer doesn't come in time, the next call waits for the same answer: a
// server that is slow isn't asked again and again.
func (l *lock) giveBack(ctx context.Context, c *conn, has holding) error {
	kind := [...]kind{exclusively: give, inSharedMode: giveShared, inEitherMode: giveEither}[has]
	l.mu.Lock()
	late := l.late
	l.mu.Unlock()
	var answer reply
	if late.call != nil && late.conn == c && late.kind == kind {
		answer = c.outcome(ctx, kind, late.call, 0)
	} else {
		answer = c.request(ctx, &request{kind: kind, key: l.key})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = lateGive{c, kind, answer.late}
	return answer.err
}

// lateGive is a request to give a lock back whose answer has not come in time.
type lateGive struct {
	conn *conn
	kind kind
	call *pgsession.Call // nil: there is none
}

// removedFromShared notes that the lock was given back on c. err is the outcome of that; if the
// connection has ended, its session must be over.
func (l *lock) removedFromShared(ctx context.Context, c *conn, err error) error {
	if err != nil && c.Err() != nil {
		err = l.terminate(ctx, c)
	}
	if err == nil {
		l.leftShared(c)
	}
	return err
}

// leftShared notes that the shared connection doesn't hold the lock.
func (l *lock) leftShared(c *conn) {
	c.unreserve(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shared = nil
}

// terminate makes sure that the session of a connection that has ended is over, and its locks with
// it. The server that it asks has the epoch of that session, or a later one. One with a later epoch may be
// another one, and know nothing of the session. Then the lock is free there, and nobody counts on the
// former server.
func (l *lock) terminate(ctx context.Context, dead *conn) error {
	c, err := l.d.anyConn(ctx, l.ttl)
	if err != nil {
		return err
	}
	return dead.Terminate(ctx, c.exec)
}
