package conformance

import (
	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/conformance/step"
)

var tokenCases = []Case{
	{ID: "E40", Name: "tokens-rise-across-clients", Run: tokensRise,
		Needs: locker.FencingUntilDataLoss,
		Why: "a storage that has seen a token refuses every smaller token; if tokens don't rise, " +
			"a holder is refused or a stale holder is accepted"},
	{ID: "E40.1", Name: "tokens-rise-across-processes", Run: tokensAcrossProcesses,
		Needs: locker.FencingUntilDataLoss, Hooks: []Hook{HookProcess},
		Why: "tokens must come from something that all processes share; a counter in each process " +
			"fences nobody"},
	{ID: "E41", Name: "tokens-rise-over-expiry", Run: tokensOverExpiry,
		Needs: all(locker.FencingUntilDataLoss, locker.RequireTTL),
		Why:   "after an expiry tokens matter most: the stale holder is still running"},
	{ID: "E41.1", Name: "tokens-rise-over-removal", Run: tokensOverRemoval,
		Needs: locker.FencingUntilDataLoss, Hooks: []Hook{HookRemove},
		Why: "when an operator removes a lock, its holder doesn't know that yet; that holder's " +
			"token must be the smaller one"},
	{ID: "E41.2", Name: "tokens-rise-over-idle-time", Run: tokensOverIdle,
		Needs: locker.FencingUntilDataLoss,
		Why: "a service that forgets an unused lock must not forget its last token, because the " +
			"storage doesn't"},
	{ID: "E41.3", Name: "tokens-rise-between-clocks-that-differ", Run: tokensBetweenClocks,
		Needs: locker.FencingUntilDataLoss, Hooks: []Hook{HookSkewed},
		Why: "a token that comes from the client's clock falls when the next holder is on a " +
			"machine whose clock is behind"},
}

func tokensRise(t T, h *Harness) {
	lockers := []locker.Locker{h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t)}
	name := step.LockName(t)
	var last locker.Token
	for i := range h.rounds(60) {
		token := step.WantFree(t, lockers[i/2%len(lockers)], name)
		step.WantRising(t, last, token)
		last = token
	}
}

func tokensAcrossProcesses(t T, h *Harness) {
	l, name := h.OpenLocker(t), step.LockName(t)
	processes := []process.Process{h.Process(t), h.Process(t)}
	var last locker.Token
	for range 3 {
		for _, p := range processes {
			token := process.MustDo(t, p, process.Command{Verb: process.Acquire, Name: name}).Token
			step.WantRising(t, last, token)
			process.MustDo(t, p, process.Command{Verb: process.Release, Name: name})
			last = step.WantFree(t, l, name)
			step.WantRising(t, token, last)
		}
	}
}

func tokensOverExpiry(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	var last locker.Token
	for range 3 {
		stale, successor := expired(t, h, l, other, name)
		step.WantRising(t, last, stale.Token())
		step.WantRising(t, stale.Token(), successor.Token())
		last = successor.Token()
		step.Release(t, successor)
	}
}

func tokensOverRemoval(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	for range 3 {
		lease := step.Acquire(t, l, name, h.ttl(locker.WithMaxHold(h.short()))...)
		h.Remove(t, name)
		successor := step.Acquire(t, other, name)
		step.WantRising(t, lease.Token(), successor.Token())
		step.LostWithin(t, h.short()+h.Slack, lease)
		step.Release(t, successor)
	}
}

func tokensOverIdle(t T, h *Harness) {
	l, name := h.OpenLocker(t), step.LockName(t)
	token := step.WantFree(t, l, name)
	step.Pass(t, 4*h.short()) // the name is idle
	again := step.WantFree(t, l, name)
	step.WantRising(t, token, again)
	step.Pass(t, 4*h.short()) // the name is idle
	step.WantRising(t, again, step.WantFree(t, h.OpenLocker(t), name))
}
