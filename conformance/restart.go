package conformance

import (
	"context"
	"fmt"

	"github.com/fencedlock/locker"
)

var restartCases = []Case{
	{ID: "E42", Name: "tokens-rise-over-a-restart", Run: tokensOver((*Harness).restart), Needs: locker.FencingUntilDataLoss, Hooks: []Hook{HookRestart},
		Why: "a service that begins to count anew after a restart gives tokens that every storage refuses"},
	{ID: "E42.1", Name: "tokens-rise-over-data-loss", Run: tokensOver((*Harness).wipe), Needs: tokensByClock{}, Hooks: []Hook{HookWipe},
		Why: "where tokens are said to survive the loss of all data, a storage must not have to be reset by hand after it"},
	{ID: "E42.2", Name: "tokens-rise-over-a-failover", Run: tokensOver((*Harness).failover),
		Needs: all(locker.FencingUntilDataLoss, locker.ToleranceFailover), Hooks: []Hook{HookFailover},
		Why: "a replica that has missed the latest must not give their tokens again"},
	{ID: "E42.3", Name: "lease-outlives-a-restart", Run: leaseOverRestart, Needs: locker.RestartLeases, Probe: true, Hooks: []Hook{HookRestart},
		Why: "where leases survive a restart, a holder goes on and nobody else gets in"},
}

func (h *Harness) restart(t T)  { h.Restart(t) }
func (h *Harness) wipe(t T)     { h.Wipe(t) }
func (h *Harness) failover(t T) { h.Failover(t) }

// tokensOver gives some tokens out before the event, through several Lockers: services reserve ranges and lose them.
func tokensOver(event func(*Harness, T)) func(T, *Harness) {
	return func(t T, h *Harness) {
		l, other, name := h.open(t), h.open(t), h.name(t)
		var last locker.Token
		for range 3 {
			for i := range 40 {
				token := wantFree(t, []locker.Locker{l, other}[i%2], name)
				rises(t, last, token)
				last = token
			}
			event(h, t)
			token := soon(t, l, name)
			rises(t, last, token)
			last = token
			token = soon(t, other, name)
			rises(t, last, token)
			last = token
		}
	}
}

// soon gets a lock on a service that has just come back: an acquisition may fail with a connection of before.
func soon(t T, l locker.Locker, name string) (token locker.Token) {
	t.Helper()
	var last error
	eventually(t, hang, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), hang/2)
		defer cancel()
		lease, err := ask(t, ctx, l, name)
		if last = err; err != nil {
			return false
		}
		token = lease.Token()
		release(t, lease)
		return true
	}, func() string { return fmt.Sprintf("the lock can't be had; the last Acquire = %v", last) })
	return token
}

func leaseOverRestart(t T, h *Harness) {
	l, other, name := h.open(t), h.open(t), h.name(t)
	lease := acquire(t, l, name)
	h.Restart(t)
	soon(t, other, h.name(t)) // is connected again
	wantLive(t, lease, other)
	if err := renew(t, lease); err != nil {
		t.Errorf("Renew after a restart = %v, want nil", err)
	}
	wantLive(t, lease, other)
	release(t, lease)
	wantFree(t, other, name)
}
