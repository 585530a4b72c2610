package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strconv"
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
	pairs    map[string][2]string
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
	x := &execution{model: newModel(h, "x"+hex.EncodeToString(random[:])), t: t, p: p, pairs: make(map[string][2]string)}
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
	for {
		d := time.Until(at)
		if d <= 0 || x.over() {
			return
		}
		x.mu.Lock()
		changed := x.changed
		x.mu.Unlock()
		if x.waitChange(changed, d) {
			continue
		}
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
			x.acquire(p, s, s.ID+i, x.nameOf(p, s, i))
		}
	case "renew", "release", "cancel", "probe", "remove":
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
	name := lockName(x.base, text, prefixed, x.pairs)
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
		x.release(a)
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
	if s.TTL == 0 {
		s.TTL = x.h.TTL
	}
	a := &attempt{id: id, party: p, name: name, lock: x.lockOf(p, name), step: s}
	ctx, cancel := context.WithCancelCause(x.ctx)
	a.cancel = cancel
	limit := s.Wait
	if s.Wait == 0 {
		limit = tryLimit
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.attempts[id] != nil || p.closing.happened() {
		cancel(nil)
		return
	}
	x.steps++
	x.attempts[id] = a
	x.run(func() {
		defer cancel(nil)
		if limit > 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeout(ctx, limit)
			defer stop()
		}
		var c *call
		x.locked(func() {
			a.began = x.now()
			for _, b := range x.locks[a.lock] {
				if b.lease != nil {
					a.floor = max(a.floor, b.lease.Token())
				}
			}
			x.locks[a.lock] = append(x.locks[a.lock], a)
			x.note("%v: locker %d asks for %q (%s)", a, p.number, name, describe(s))
			bound := time.Duration(0)
			if limit > 0 {
				bound = limit + x.h.Slack
			}
			c = x.begin(bound, "Acquire of %v", a)
		})
		lease, err := p.l.Acquire(ctx, name, x.options(s)...)
		x.mu.Lock()
		defer x.mu.Unlock()
		a.lease, a.err, a.returned = lease, err, x.now()
		if lease != nil {
			x.show(a)
			x.watch(a)
		}
		x.acquired(a)
		x.end(c)
		if x.draining && a.lease != nil {
			x.releaseLocked(a)
		}
	})
}

func describe(s Step) string {
	text := "waits"
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
			c = x.begin(renewalBound+x.h.Slack, "Renew of %v", a)
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

func (x *execution) release(a *attempt) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.releaseLocked(a)
}

func (x *execution) releaseLocked(a *attempt) {
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
			c = x.begin(releaseBound+x.h.Slack, "Release of %v", a)
		})
		err := a.lease.Release(x.ctx)
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
			x.release(a)
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
			c = x.begin(tryLimit+x.h.Slack, "CurrentToken on locker %d", p.number)
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
			c = x.begin(closeBound+x.h.Slack, "Close of locker %d", p.number)
		})
		err := p.l.Close()
		x.mu.Lock()
		defer x.mu.Unlock()
		x.closeAnswered(p, err)
		x.end(c)
	})
}

// finish ends all faults and lets everybody who waits have the lock. Then all must be as before the
// program.
func (x *execution) finish() {
	x.healAll()
	x.locked(func() {
		x.note("the program is over, the faults end, and all leases are released as soon as they are granted")
		x.draining = true
		for _, a := range x.attempts {
			if a.lease != nil && !a.asked.happened() {
				x.releaseLocked(a)
			}
		}
	})
	if !x.drain() {
		return
	}
	x.wantAllFree()
	x.wantLockersUsable()
	x.wantNoResidue()
	for _, p := range x.parties {
		x.close(p)
	}
	if x.drain() {
		x.wantNoResidue()
	}
}

// drain waits until no call is under way. It reports whether that was so, and no invariant broken.
func (x *execution) drain() bool {
	limit := x.longest + x.h.guarantees.Expiry.Slack + 15*time.Second + x.grace()
	progress := time.Now()
	for {
		x.mu.Lock()
		x.sweep()
		done, under, broken, changed := x.active == 0, x.steps, x.broken, x.changed
		x.mu.Unlock()
		switch {
		case broken != nil:
			return false
		case done:
			return true
		}
		if x.waitChange(changed, x.h.HandOffLimit()) {
			progress = time.Now()
			continue
		}
		if time.Since(progress) > limit {
			x.locked(func() {
				for c := range x.calls {
					x.breach(freeIsGranted, "%s has not returned, %v after everything was released (%d operations)", c.what, limit, under)
				}
			})
			return false
		}
	}
}

// wantAllFree checks that the stranger gets all locks of the program.
func (x *execution) wantAllFree() {
	var names []string
	x.locked(func() {
		for lock, attempts := range x.locks {
			if lock == x.lockOf(x.stranger, attempts[0].name) {
				names = append(names, attempts[0].name)
			}
		}
	})
	for _, name := range names {
		if !x.usable(x.stranger, name, 0) {
			return
		}
	}
}

// wantLockersUsable checks that each Locker can still acquire a lock.
func (x *execution) wantLockersUsable() {
	for _, p := range x.parties {
		if !p.closing.happened() && !x.usable(p, x.base+"after"+strconv.Itoa(p.number), x.grace()) {
			return
		}
	}
}

// usable has p acquire and release a lock, until that works. Each failure is judged by the model,
// which knows how long something may be left. It reports whether no invariant is broken.
func (x *execution) usable(p *party, name string, grace time.Duration) bool {
	end := time.Now().Add(x.longest + x.h.guarantees.Expiry.Slack + x.h.Slack + 20*time.Second + grace)
	for pause := 5 * time.Millisecond; ; pause *= 2 {
		x.mu.Lock()
		x.probes++
		id := -x.probes
		x.mu.Unlock()
		x.acquire(p, Step{}, id, name)
		if !x.drain() {
			return false
		}
		x.mu.Lock()
		ok, err := x.attempts[id].lease != nil, x.attempts[id].err
		if !ok && time.Now().After(end) {
			x.breach(freeIsGranted, "locker %d can't get the lock %q after the program: %v", p.number, name, err)
		}
		broken := x.broken != nil
		x.mu.Unlock()
		if ok || broken {
			return !broken
		}
		time.Sleep(pause)
	}
}

// wantNoResidue waits until nothing is left on the service.
func (x *execution) wantNoResidue() {
	if x.h.Residue == nil || x.over() {
		return
	}
	limit := x.longest + x.h.guarantees.Expiry.Slack + x.h.Slack + 15*time.Second
	for end, pause := time.Now().Add(limit), time.Millisecond; ; pause *= 2 {
		left := x.h.Residue(x.t)
		if left == "" {
			return
		}
		if time.Now().After(end) {
			x.locked(func() { x.breach(nothingStays, "left on the service after the program: %s", left) })
			return
		}
		time.Sleep(pause)
	}
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
