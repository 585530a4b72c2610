package conformance

import (
	"context"
	"time"

	"github.com/fencedlock/locker"
)

// Acquire, as a program calls it.

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
			x.doubtNew(a)
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
