package conformance

import (
	"context"
	"errors"

	"github.com/fencedlock/locker"
)

// The other calls of a program.

func (x *execution) renew(a *attempt) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if a.lease == nil || a.party.closing.happened() {
		return
	}
	x.steps++
	x.run(func() {
		var c *call
		var began moment
		x.locked(func() {
			began = x.now()
			x.note("Renew of %v", a)
			c = x.begin(a.party, renewalBound+x.h.Slack, "Renew of %v", a)
		})
		ctx, cancel := context.WithTimeout(x.ctx, renewalBound)
		defer cancel()
		err := a.lease.Renew(ctx)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.renewalAnswered(a, began, err)
		x.end(c)
	})
}

func (x *execution) release(a *attempt, over bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.releaseLocked(a, over)
}

// releaseLocked begins a call of Release, whose context may be over. The caller has the mutex.
func (x *execution) releaseLocked(a *attempt, over bool) {
	if a.lease == nil {
		return
	}
	x.steps++
	if !a.asked.happened() {
		a.asked = x.now()
	}
	x.run(func() {
		var c *call
		var began moment
		x.locked(func() {
			began = x.now()
			x.note("Release of %v", a)
			c = x.begin(a.party, releaseBound+x.h.Slack, "Release of %v", a)
		})
		ctx, cancel := context.WithCancel(x.ctx)
		defer cancel()
		if over {
			cancel()
		}
		err := a.lease.Release(ctx)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.releaseAnswered(a, began, err)
		x.end(c)
	})
}

// probe has the stranger try to get a lock, and release it.
func (x *execution) probe(name string) {
	x.mu.Lock()
	x.probes++
	id := -x.probes
	x.mu.Unlock()
	x.acquire(x.stranger, Step{}, id, name)
	x.mu.Lock()
	a := x.attempts[id]
	x.mu.Unlock()
	if a == nil {
		return
	}
	x.locked(func() {
		x.run(func() {
			x.await(func() bool { return !a.pending() })
			x.release(a, false)
		})
	})
}

func (x *execution) read(p *party, name string) {
	lock := x.lockOf(p, name)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.steps++
	x.run(func() {
		var c *call
		var began moment
		var sure *attempt
		x.locked(func() {
			began = x.now()
			sure = x.holder(lock)
			c = x.begin(p, tryLimit+x.h.Slack, "CurrentToken on locker %d", p.number)
		})
		ctx, cancel := context.WithTimeout(x.ctx, tryLimit)
		defer cancel()
		token, err := locker.CurrentToken(ctx, p.l, name, p.opening.Slot)
		x.mu.Lock()
		defer x.mu.Unlock()
		if !errors.Is(err, locker.ErrNoTokenReader) {
			x.tokenRead(p, lock, began, sure, token, err)
		}
		x.end(c)
	})
}

// holder returns the attempt that surely has the lock; nil: there is none.
func (x *execution) holder(lock string) *attempt {
	for _, a := range x.locks[lock] {
		if a.isLive() && a.doubt == "" {
			return a
		}
	}
	return nil
}

func (x *execution) close(p *party) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p.closing.happened() {
		return
	}
	p.closing = x.now()
	x.steps++
	x.run(func() {
		var c *call
		x.locked(func() {
			x.note("Close of locker %d", p.number)
			c = x.begin(p, closeBound+x.h.Slack, "Close of locker %d", p.number)
		})
		err := p.l.Close()
		x.mu.Lock()
		defer x.mu.Unlock()
		x.closeAnswered(p, err)
		x.end(c)
	})
}
