package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// execution runs one program.
type execution struct {
	*model
	t        T
	p        Program
	ctx      context.Context // of all calls; ended by stop
	stop     context.CancelFunc
	stranger *party // which no link disturbs
	calling  sync.WaitGroup
	active   int  // goroutines of run
	draining bool // leases are released as soon as they are granted
	probes   int
	steps    int // operations so far
}

// errGiveUp is the cause of a cancellation by the program.
var errGiveUp = errors.New("the program cancels")

// execute runs a program, and returns the first invariant that it finds broken, and the timeline.
func execute(t T, h *Harness, p Program) *execution {
	var random [5]byte
	_, _ = rand.Read(random[:]) // never fails
	x := &execution{model: newModel(h, "x"+hex.EncodeToString(random[:])), t: t, p: p}
	x.ctx, x.stop = context.WithCancel(context.Background())
	for _, s := range p.Steps {
		x.longest = max(x.longest, s.TTL)
	}
	x.open()
	defer x.cleanUp()
	for _, s := range p.sorted() {
		x.until(x.start.Add(s.At))
		if x.over() {
			return x
		}
		x.locked(x.sweep)
		x.begin1(s)
	}
	if !x.over() {
		x.finish()
	}
	return x
}

// over reports whether an invariant is broken.
func (x *execution) over() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.broken != nil
}

// open opens the Lockers of the program, and the stranger.
func (x *execution) open() {
	for i, o := range x.p.Lockers {
		p := &party{number: i, opening: o}
		switch {
		case o.Linked && x.h.Linked != nil:
			p.l, p.link = x.h.Linked(x.t)
		case o.Prefix != "" && x.h.Prefixed != nil:
			p.l = x.h.Prefixed(x.t, x.base+o.Prefix)
		default:
			p.l = x.h.Open(x.t)
		}
		x.parties = append(x.parties, p)
	}
	x.stranger = &party{number: len(x.parties), l: x.h.Open(x.t)}
	x.parties = append(x.parties, x.stranger)
}

// until waits until the moment, or until an invariant is broken.
func (x *execution) until(at time.Time) {
	chunk := max(time.Until(at)/4, x.h.Slack)
	look := time.Now().Add(chunk)
	for {
		now := time.Now()
		if !now.Before(at) || x.over() {
			return
		}
		if now.After(look) {
			x.locked(x.sweep)
			look = now.Add(chunk)
		}
		x.mu.Lock()
		changed := x.changed
		x.mu.Unlock()
		x.waitChange(changed, min(time.Until(at), chunk))
	}
}

// waitChange waits for a change, for up to d.
func (x *execution) waitChange(changed <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-changed:
		return true
	case <-timer.C:
		return false
	}
}

// begin1 begins one step.
func (x *execution) begin1(s Step) {
	if s.Locker >= len(x.p.Lockers) && len(x.p.Lockers) > 0 {
		return
	}
	p := x.stranger
	if len(x.p.Lockers) > 0 {
		p = x.parties[s.Locker]
	}
	switch s.Do {
	case "acquire":
		for i := range s.count() {
			if s.Spread > 0 {
				p = x.parties[min(s.Locker+i%s.Spread, len(x.parties)-1)]
			}
			x.acquire(p, s, s.ID+i, x.nameOf(p, s, i))
		}
	case "renew", "release", "cancel", "probe", "remove", "nest":
		for i := range s.count() {
			x.mu.Lock()
			a := x.attempts[s.ID+i]
			x.mu.Unlock()
			if a != nil {
				x.concern(a, s)
			}
		}
	case "read":
		x.read(p, x.nameOf(p, s, 0))
	case "invalid":
		x.invalid(p, x.nameOf(p, s, 0), s.N)
	case "close":
		x.close(p)
	case "pause", "resume", "down", "up", "restart", "wipe", "failover":
		x.disturbService(s.Do)
	default:
		if p.link != nil {
			x.disturbLink(p, s)
		}
	}
}

func (x *execution) nameOf(p *party, s Step, i int) string {
	text := ""
	if s.Name < len(x.p.Names) {
		text = x.p.Names[s.Name]
	}
	prefixed := p.opening.Prefix != "" && x.h.Prefixed != nil && p.link == nil
	name := lockName(x.base, text, prefixed)
	if s.Count > 0 && !s.Same {
		name = member(name, i)
	}
	return name
}

// lockOf is the identity of a lock.
func (x *execution) lockOf(p *party, name string) string {
	if p.link == nil && p.opening.Prefix != "" && x.h.Prefixed != nil {
		return x.base + p.opening.Prefix + "\x00" + name
	}
	return "\x00" + name
}

// concern does to an attempt what a step says.
func (x *execution) concern(a *attempt, s Step) {
	switch s.Do {
	case "renew":
		x.renew(a)
	case "release":
		x.release(a, s.Over)
	case "nest":
		x.nest(a)
	case "cancel":
		x.locked(func() {
			if !a.cancelled.happened() {
				a.cancelled = x.now()
				if a.pending() {
					x.note("%v is cancelled", a)
				}
			}
		})
		a.cancel(errGiveUp)
	case "probe":
		if a.lock == x.lockOf(x.stranger, a.name) {
			x.probe(a.name)
		}
	case "remove":
		x.remove(a)
	}
}

// run calls f in its own goroutine, which the program waits for at its end. The caller has the
// mutex.
func (x *execution) run(f func()) {
	x.active++
	x.calling.Go(func() {
		f()
		x.mu.Lock()
		defer x.mu.Unlock()
		x.active--
		x.wake()
	})
}

// tryLimit bounds the calls that don't wait, on a service that doesn't answer.
const tryLimit = 3 * time.Second

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
		if limit > 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeout(ctx, limit)
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

// The longest time that calls may take: their own limits, which the contract doesn't state, with a
// generous margin.
const (
	renewalBound = 10 * time.Second
	releaseBound = 10 * time.Second
	closeBound   = 30 * time.Second
)

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

// await waits until done, which is called with the mutex, or until an invariant is broken.
func (x *execution) await(done func() bool) {
	for {
		x.mu.Lock()
		ok, changed := done() || x.broken != nil, x.changed
		x.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-x.ctx.Done():
			return
		}
	}
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

// cleanUp ends everything, whatever the state.
func (x *execution) cleanUp() {
	x.healAll()
	x.stop()
	for _, p := range x.parties {
		_ = step.WaitClosed(inBackground(func() { _ = p.l.Close() }), closeBound)
	}
	if !step.WaitClosed(inBackground(x.calling.Wait), closeBound) {
		x.locked(func() {
			x.breach(callsReturn, "a call has not returned though its context has ended and its locker is closed")
		})
	}
}

// inBackground returns a channel that is closed when f has returned.
func inBackground(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return done
}
