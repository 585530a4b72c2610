package pgbackend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// The connection that the leases of a TTL share: which one that is, and how it is made.

// maxConnectWait bounds how long a call waits for a shared connection that is being made. The first
// call of Acquire must end within 15 s, and sends a request after that, or has sent one before.
const maxConnectWait = 11 * time.Second

// sharedConn returns the shared connection. If its epoch is over, it is given up, and another one is
// made. If it is silent, another one is made as well, unless the server is heard before that. ctx and
// maxConnectWait bound the waiting. If that ends before the connection is made, it is still made, for
// the next caller.
func (p *pool) sharedConn(ctx context.Context) (*conn, error) {
	if c := p.chooseUsable(); c != nil {
		return c, nil
	}
	limited, cancel := context.WithTimeout(ctx, maxConnectWait)
	defer cancel()
	for {
		c, err := p.makeShared(limited)
		switch {
		case err == nil:
			return c, nil
		case limited.Err() != nil && ctx.Err() == nil:
			return nil, errConnectWait
		case !errors.Is(err, errHeard):
			return nil, err
		}
	}
}

var errConnectWait = fmt.Errorf(
	"%w: no connection was made within %v, and making it goes on", locker.ErrNoAnswer, maxConnectWait)

// errHeard says that a silent connection was heard while another one was being made.
var errHeard = errors.New("the server is heard again")

// makeShared waits until a shared connection is made, or the existing one answers. The error is errHeard if
// the existing one has answered, but can't be used: it is silent again, or its epoch is over. Then the
// caller tries again.
func (p *pool) makeShared(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.mu.Lock()
	silent := p.shared
	p.mu.Unlock()
	if silent.isOpen() {
		heard := silent.Heard() // before the look
		go func() {
			select {
			case <-heard:
				cancel(errHeard)
			case <-ctx.Done():
			}
		}()
	}
	if c := p.chooseUsable(); c != nil {
		return c, nil
	}
	c, err := p.making.Do(ctx, p.d.tasks, p.connectShared)
	if err == nil {
		return c, nil
	}
	if c := p.chooseUsable(); c != nil { // it was heard, or made, meanwhile
		return c, nil
	}
	return nil, err
}

// sharedWithoutWaiting returns the shared connection if there is one. Otherwise it is nil, and the
// connection is made in the background.
func (p *pool) sharedWithoutWaiting(ctx context.Context) *conn {
	over, cancel := context.WithCancel(ctx)
	cancel()
	c, _ := p.sharedConn(over)
	return c
}

// chooseShared returns the shared connection; nil if there is none that further leases can be attached
// to. If it has ended, or is silent, it changes places with the other one. An other one whose epoch is over is
// given up.
func (p *pool) chooseShared() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.chooseLocked()
}

// chooseLocked is chooseShared, with the mutex locked.
func (p *pool) chooseLocked() *conn {
	if p.other.isOpen() && p.other.isOfOldEpoch() { // nobody else would look at it
		p.other.giveUp(errOldEpoch)
	}
	if p.hasOther() && (!p.shared.isOpen() || p.shared.isSilent() && !p.other.isSilent()) {
		p.shared, p.other = p.other, p.shared
	}
	if p.shared.isOpen() {
		return p.shared
	}
	return nil
}

// hasOther reports whether the other connection can take the place of the shared one. The mutex is
// held.
func (p *pool) hasOther() bool { return p.other.isOpen() && !p.other.isOfOldEpoch() }

// chooseUsable is chooseShared, without a connection whose epoch is over, which is given up, and without a
// silent one for which another one can be made. The mutex is held throughout, because a connection may become
// silent between two looks.
func (p *pool) chooseUsable() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.chooseLocked()
	switch {
	case c == nil:
		return nil
	case c.isOfOldEpoch():
		c.giveUp(errOldEpoch)
		return nil
	case c.isSilent() && !p.hasOther(): // otherwise that one is silent as well
		return nil
	}
	return c
}

// connectShared makes the shared connection. It ends within connectTime, or when the Locker is
// closed.
func (p *pool) connectShared(ctx context.Context) (*conn, error) {
	if c := p.chooseUsable(); c != nil { // it was made between a look and this call
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.d.connectTime())
	defer cancel()
	c, err := p.connectToPrimary(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	closed := p.closed
	if p.shared.isOpen() { // it was silent
		p.other = p.shared
	}
	p.shared = c
	p.mu.Unlock()
	if closed {
		c.leave()
	}
	return c, nil
}

const formerPause = time.Second // after a shared connection that led to a former primary, without another try

// connectToPrimary fails if the connection leads to a former primary, and for a moment after that
// without another try: each one that is made there writes to the table of the epoch.
func (p *pool) connectToPrimary(ctx context.Context) (*conn, error) {
	p.mu.Lock()
	isFormer := driver.Stamp() < p.retryAt
	p.mu.Unlock()
	if isFormer {
		return nil, errFormerPrimary
	}
	c, err := p.d.connect(ctx, p, false)
	if err != nil || !c.isOfOldEpoch() {
		return c, err
	}
	c.End(errFormerPrimary)
	p.mu.Lock()
	p.retryAt = driver.Stamp().Add(formerPause)
	p.mu.Unlock()
	return nil, errFormerPrimary
}

var errFormerPrimary = fmt.Errorf("%w: the server may be a former primary, or its epoch must be raised by hand (docs/postgres.md, \"Raising the epoch\"); it is asked again after %v", errOldEpoch, formerPause)
