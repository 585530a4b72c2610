package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/fencedlock/locker/conformance/step"
)

// execution runs one program.
type execution struct {
	*model
	t        T
	p        Program
	labels   context.Context // of the goroutines that count as the program's
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

// execute runs a program. The result has the timeline, and the first invariant that was found broken.
func execute(labels context.Context, t T, h *Harness, p Program) *execution {
	var random [5]byte
	_, _ = rand.Read(random[:]) // never fails
	x := &execution{model: newModel(h, "x"+hex.EncodeToString(random[:])), t: t, p: p, labels: labels}
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
		x.take(s)
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
		p.toSlot(o.Slot)
		x.parties = append(x.parties, p)
	}
	x.stranger = &party{number: len(x.parties), l: x.h.Open(x.t)}
	if len(x.p.Lockers) > 0 {
		x.stranger.toSlot(x.p.Lockers[0].Slot)
	}
	x.parties = append(x.parties, x.stranger)
}

// toSlot has p acquire a slot of each name. Without permits it goes on to acquire the lock.
func (p *party) toSlot(slot int) {
	p.opening.Slot = 0
	if slot == 0 {
		return
	}
	over, cancel := context.WithCancel(context.Background())
	cancel() // the answer is known before anything is sent
	if _, err := p.l.Acquire(over, "permits", onSlot(slot)); !errors.Is(err, errors.ErrUnsupported) {
		p.l, p.opening.Slot = slotOf{p.l, slot}, slot
	}
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

// The longest time that calls may take: their own limits, which the contract doesn't state, with a
// generous margin.
const (
	renewalBound = 10 * time.Second
	releaseBound = 10 * time.Second
	closeBound   = 30 * time.Second
)

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
