package conformance

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/conformance/step"
)

// Permits and holders that give up, die or are suspended.

func permitsOfTheKilled(t T, h *Harness) {
	const n, rounds = 2, 3
	l := h.OpenLocker(t)
	if !hasPermits(t, l) {
		return
	}
	name := step.LockName(t)
	for range rounds {
		var holders []process.Process
		for range n {
			p := h.Process(t)
			process.MustDo(t, p, process.Command{Verb: process.Acquire, Name: name, TTL: h.TTL, Permits: n})
			holders = append(holders, p)
		}
		step.WantHeld(t, permitOf{l, n}, name)
		for _, p := range holders {
			p.Kill()
		}
		wantPermits(t, h.DeathLimit(), l, name, n)
	}
}

// pausedOnItsSlot suspends the holder of one of two permits. Each slot has a storage of its own.
func pausedOnItsSlot(t T, h *Harness) {
	const n = 2
	l := h.OpenLocker(t)
	if !hasPermits(t, l) {
		return
	}
	name := step.LockName(t)
	storage := make([]fence, n+1)
	acquire := process.Command{Verb: process.Acquire, Name: name, TTL: h.TTL, Permits: n}
	paused, other := h.Process(t), h.Process(t)
	stale, lives := process.MustDo(t, paused, acquire), process.MustDo(t, other, acquire)
	for _, a := range []process.Answer{stale, lives} {
		if err := storage[a.Slot].write(a.Token, 1); err != nil {
			t.Fatalf("write of the holder of slot %d = %v, want nil", a.Slot, err)
		}
	}
	paused.Stop()
	next := step.StartAcquire(t, permitOf{l, n}, name).Granted(t, h.ExpiryLimit()+time.Second)
	if locker.Slot(next) != stale.Slot {
		t.Fatalf("the next permit is slot %d, want %d, the suspended holder's", locker.Slot(next), stale.Slot)
	}
	if err := storage[stale.Slot].write(next.Token(), 2); err != nil {
		t.Fatalf("write of the next holder = %v, want nil", err)
	}
	paused.Continue()
	look := process.Do(t, paused, process.Command{Verb: process.Look, Name: name})
	if !look.Lost || look.Slot != stale.Slot {
		t.Errorf("the first look after waking: slot %d, Err = %q, want ErrLost on slot %d", look.Slot, look.Error, stale.Slot)
	}
	if err := storage[stale.Slot].write(look.Token, 3); !errors.Is(err, errStale) {
		t.Errorf("the stale holder's write with token %v = %v, want it refused: the next holder of the slot has %v", look.Token, err, next.Token())
	}
	process.MustDo(t, other, process.Command{Verb: process.Look, Name: name})
	if err := storage[lives.Slot].write(lives.Token, 4); err != nil {
		t.Errorf("write of the holder of the other slot = %v, want nil", err)
	}
	step.Release(t, next)
	process.MustDo(t, other, process.Command{Verb: process.Release, Name: name})
}

func permitCancelRace(t T, h *Harness) {
	const n = 2
	l, other := h.OpenLocker(t), h.OpenLocker(t)
	if !hasPermits(t, l) {
		return
	}
	name := step.LockName(t)
	for i := range h.rounds(100) {
		held := []locker.Lease{step.AcquireWithin(t, h.RemovalLimit(), permitOf{l, n}, name), step.AcquireWithin(t, h.RemovalLimit(), permitOf{l, n}, name)}
		ctx, cancel := context.WithCancel(t.Context())
		var got locker.Lease
		var err error
		var asked sync.WaitGroup
		asked.Go(func() { got, err = locker.AcquirePermit(ctx, other, name, n) })
		yield(i % 50) // a waiter in some state, from none to one of the slots' queues
		step.Race(t, func() error { cancel(); return nil }, func() error { return held[0].Release(t.Context()) })
		asked.Wait()
		switch {
		case err == nil:
			step.Release(t, got)
		case !errors.Is(err, context.Canceled):
			t.Fatalf("AcquirePermit that was cancelled = %v, want context.Canceled", err)
		}
		step.Release(t, held[1])
	}
	wantPermits(t, h.RemovalLimit(), l, name, n)
	h.WaitNoResidue(t)
}

func killedInLine(t T, h *Harness) {
	l, other := h.OpenLocker(t), h.OpenLocker(t)
	if !hasPermits(t, l) {
		return
	}
	name := step.LockName(t)
	held := step.Acquire(t, permitOf{l, 1}, name)
	p := h.Process(t)
	process.Begin(t, p, process.Command{Verb: process.Acquire, Name: name, TTL: h.TTL, Permits: 1})
	step.Eventually(t, step.Limit, func() error {
		line, err := step.Try(t, l, name, onSlot(locker.LineSlot))
		if err == nil {
			step.Release(t, line)
			return errors.New("the process isn't in the line")
		}
		return nil
	})
	behind := step.StartAcquire(t, permitOf{other, 1}, name, h.ttl()...)
	step.Pass(t, h.Settle)
	p.Kill()
	step.Release(t, held)
	// The dead one's place in the line ends, and its place in the queue of the slot.
	step.Release(t, behind.Granted(t, 2*h.DeathLimit()+time.Second))
	wantPermits(t, h.RemovalLimit(), l, name, 1)
}
