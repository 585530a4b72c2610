package pgbackend

import (
	"cmp"
	"context"
	"sync"

	"github.com/fencedlock/locker/driver"
)

// A lease that was waited for is attached to its waiter's connection at first. It moves to the
// shared connection, so that connections are needed for waiters alone. Two callers move it: a
// renewal (Renew), and an acquisition that needs a waiter's connection when there are as many as may
// be (moveOne). So a lease that isn't renewed in the background stays where it is until its holder
// calls Renew, or another waiter needs the connection.
//
// The move has five steps on two sessions: W, the waiter's, and S, the shared one. A is the lock, G
// its gate. At the start W has A exclusively, and G.
//
//	step  on  statement                                                                 after it
//	1     W   take A in shared mode, too, and give A back that is held exclusively      W has A in shared mode, and G
//	2     S   take A in shared mode, without waiting                                    both have A in shared mode
//	3     W   give A back                                                               S has A in shared mode, W has G
//	4     S   take A exclusively, without waiting, and give A back in shared mode       S has A exclusively, W has G
//	5     W   give G back                                                               S has A exclusively
//
// After each step A is held by W or by S, so another session that wants A exclusively is refused,
// or goes on waiting. A session that wants A in shared mode (no version asks for that yet) must ask
// for G first. W has G until S has A exclusively, so that session is refused, too.
//
// Steps 2 and 4 would fail if somebody waited for A: Postgres lets nobody pass a waiter. The gate
// prevents that: all waiters wait for G, and W has G until step 5. If another program uses the same
// advisory key, step 4 is refused. Then the gate stays closed, the lease stays attached to both
// sessions, and the next renewal takes step 4 again.
//
// Step 2 would also succeed if W's session had ended just before, and somebody else had had A
// since. So the lease stays attached to W until W confirms that it gives A back: that answer proves
// that W had A without a gap until after S had it. From W's answer to step 3 on, the end of W would
// open the gate while S has A in shared mode only. So from step 3 until W has answered step 5 the
// lease is attached to both sessions, the end of either is the end of the lease, and the base of
// the lease is the older one of both.
//
// S is asked after W was renewed for the last time, so a base that was reported for W stays true.
// While a lock moves, the move is its renewal. If the answer to a step doesn't come in time, the
// step goes on, and the next renewal reads the answer.
//
// If step 4 fails (because an operator has cancelled the statement, for example), nobody knows in
// which of the modes S has A. Then the move stops: the lease stays attached to both sessions until
// it is released, and the release gives A back in both modes.

// move moves the lease of l, and returns its base. Where the lease can't be moved now it is renewed
// where it is.
func (l *lock) move(ctx context.Context) (driver.Instant, error) {
	if err := l.lockMove(ctx); err != nil {
		return 0, err
	}
	defer l.unlockMove()
	return l.moveLocked(ctx)
}

// moveLocked is move for a goroutine that has l.moveLock.
func (l *lock) moveLocked(ctx context.Context) (driver.Instant, error) {
	l.mu.Lock()
	waiter, attached, state, shared := l.waiter, l.attached, l.state, l.shared
	l.mu.Unlock()
	switch {
	case attached == nil:
		return 0, errOver
	case attached != waiter || state == notMoving:
		return attached.confirm(ctx)
	case state >= handingOver:
		return l.finishMove(ctx, waiter, shared)
	}
	c := l.target(ctx, waiter, shared)
	if c == nil {
		return waiter.confirm(ctx)
	}
	if state != downgraded {
		if err := l.downgrade(ctx, waiter); err != nil {
			c.unreserve(l)
			return 0, err
		}
	}
	if err := l.takeOver(ctx, c, shared == c); err != nil {
		return waiter.confirm(ctx)
	}
	return l.finishMove(ctx, waiter, c)
}

// target reserves the key on the shared connection, if that leads where the waiter's connection
// leads. Otherwise, or while the shared connection is being made, target is nil. earlier is the one on
// which the lock may be held since an earlier try.
func (l *lock) target(ctx context.Context, waiter, earlier *conn) *conn {
	c := l.pool.sharedWithoutWaiting(ctx)
	if c == nil || c.tokens.serverID != waiter.tokens.serverID {
		return nil
	}
	if earlier != nil && earlier != c && l.leaveEarlier(ctx) != nil || c.reserve(l) != nil {
		return nil
	}
	if earlier != c && l.clearEarlier(ctx, c) != nil {
		c.unreserve(l)
		return nil
	}
	return c
}

// clearEarlier removes the row of an earlier lease on c, in half of the time: if c is silent, W must
// still be renewed.
func (l *lock) clearEarlier(ctx context.Context, c *conn) error {
	ctx, cancel := halfOf(ctx)
	defer cancel()
	return l.d.labels.clear(ctx, c, l)
}

// leaveEarlier gives the lock back on the shared connection of an earlier try, in half of the time: if
// that is silent, W has to be renewed. The request goes on then. It does no harm however late it is
// executed: the key is reserved there for l alone, and what l asks for there comes after it.
func (l *lock) leaveEarlier(ctx context.Context) error {
	ctx, cancel := halfOf(ctx)
	defer cancel()
	l.mu.Lock()
	c, has := l.shared, l.sharedHas
	l.mu.Unlock()
	return l.removedFromShared(ctx, c, l.giveBack(ctx, c, has))
}

// finishMove takes the steps 3 to 5, as far as it can. Where a move doesn't end, both sessions are
// asked, and the base is the older of theirs.
func (l *lock) finishMove(ctx context.Context, waiter, c *conn) (driver.Instant, error) {
	if l.currentState() == handingOver {
		if err := l.giveOnWaiter(ctx, waiter, "pg_advisory_unlock_shared", l.key.lock()); err != nil {
			return 0, err
		}
		l.setState(handedOver)
	}
	if s := l.currentState(); s == handedOver || s == upgrading {
		if err := l.upgrade(ctx, c); err != nil {
			return 0, err
		}
	}
	if s := l.currentState(); s == handedOver || s == undecided {
		return confirmBoth(ctx, waiter, c)
	}
	l.setState(openingGate)
	if err := l.giveOnWaiter(ctx, waiter, "pg_advisory_unlock", l.key.gate()); err != nil {
		return 0, err
	}
	if err := l.attach(c); err != nil {
		err = asLoss(err)
		l.notifyLost(err)
		return 0, err
	}
	l.returnWaiter(waiter)
	return c.LastAnswered(), nil
}

func (l *lock) setState(s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = s
}

func (l *lock) setStates(s state, has holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state, l.sharedHas = s, has
}

func (l *lock) currentState() state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// confirmBoth asks both sessions whether they are the same as before. The base is the older one.
func confirmBoth(ctx context.Context, waiter, c *conn) (driver.Instant, error) {
	var onShared driver.Instant
	var err error
	var asked sync.WaitGroup
	asked.Go(func() { onShared, err = c.confirm(ctx) })
	onWaiter, waiterErr := waiter.confirm(ctx)
	asked.Wait()
	return min(onWaiter, onShared), cmp.Or(waiterErr, err)
}
