package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/fencedlock/locker"
)

// The calls of a program.

func (x *execution) options(s Step) []locker.Option {
	var opts []locker.Option
	if s.Wait == 0 {
		opts = append(opts, locker.NoWait())
	}
	if s.TTL > 0 && x.h.TTL > 0 {
		opts = append(opts, locker.WithTTL(s.TTL))
	}
	if s.MaxHold > 0 {
		opts = append(opts, locker.WithMaxHold(s.MaxHold))
	}
	if s.NoRenewal {
		opts = append(opts, locker.WithoutRenewal())
	}
	return opts
}

// acquire begins a call of Acquire.
func (x *execution) acquire(p *party, s Step, id int, name string) {
	x.ask(&attempt{id: id, party: p, name: name, lock: x.lockOf(p, name), step: s})
}

// ask makes the call of an attempt.
func (x *execution) ask(a *attempt) {
	if a.step.TTL == 0 {
		a.step.TTL = x.h.TTL
	}
	p, s := a.party, a.step
	ctx, cancel := context.WithCancelCause(x.ctx)
	a.cancel = cancel
	limit := s.Wait
	if s.Wait == 0 {
		limit = tryLimit
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.attempts[a.id] != nil || p.closing.happened() {
		cancel(nil)
		return
	}
	x.steps++
	x.attempts[a.id] = a
	x.run(func() {
		defer cancel(nil)
		if a.inside != nil {
			var stop context.CancelFunc
			ctx, stop = locker.WithLease(ctx, a.inside.lease)
			defer stop()
		}
		var c *call
		x.locked(func() {
			a.began = x.now()
			if s.Over {
				a.cancelled = a.began
				cancel(errGiveUp)
			}
			for _, b := range x.locks[a.lock] {
				if b.lease != nil {
					a.floor = max(a.floor, b.lease.Token())
				}
			}
			x.locks[a.lock] = append(x.locks[a.lock], a)
			x.note("%v: locker %d asks for %q (%s)", a, p.number, a.name, describe(a))
			bound, prompt := time.Duration(0), p
			if a.waits() && !s.Over {
				prompt = nil
			}
			if limit > 0 {
				bound = limit + x.h.Slack
			}
			c = x.begin(prompt, bound, "Acquire of %v", a)
		})
		if limit > 0 { // counted from began, so that it isn't over too early
			var stop context.CancelFunc
			ctx, stop = context.WithDeadline(ctx, a.began.at.Add(limit))
			defer stop()
		}
		lease, err := p.l.Acquire(ctx, a.name, x.options(s)...)
		x.mu.Lock()
		defer x.mu.Unlock()
		a.lease, a.err, a.returned = lease, err, x.now()
		if lease != nil {
			a.token = lease.Token()
			x.show(a)
			x.watch(a)
		}
		x.acquired(a)
		x.end(c)
		if x.draining && a.lease != nil {
			x.releaseLocked(a, false)
		}
	})
}

func describe(a *attempt) string {
	text, s := "waits", a.step
	switch {
	case s.Wait == 0:
		text = "doesn't wait"
	case s.Wait > 0:
		text = "waits for up to " + s.Wait.String()
	}
	if s.TTL > 0 {
		text += ", TTL " + s.TTL.String()
	}
	if s.NoRenewal {
		text += ", no renewal"
	}
	if s.MaxHold > 0 {
		text += ", held for up to " + s.MaxHold.String()
	}
	if a.inside != nil {
		text += ", with a context of " + a.inside.String()
	}
	return text
}

// watch waits for the end of a lease.
func (x *execution) watch(a *attempt) {
	x.calling.Go(func() {
		select {
		case <-a.lease.Done():
		case <-x.ctx.Done():
			return
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		a.ended = x.now()
		x.ended(a)
		x.wake()
	})
}

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
		token, err := locker.CurrentToken(ctx, p.l, name)
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
