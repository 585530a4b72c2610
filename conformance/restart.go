package conformance

import (
	"context"
	"fmt"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

var restartCases = []Case{
	{ID: "E42", Name: "tokens-rise-over-a-restart", Run: tokensOver((*Harness).restart, leasesEndByRestart),
		Needs: locker.FencingUntilDataLoss, Hooks: []Hook{HookRestart},
		Why: "a service that starts to count again after a restart gives tokens that every " +
			"storage refuses"},
	{ID: "E42.1", Name: "tokens-rise-over-data-loss", Run: tokensOver((*Harness).wipe, leasesEnd),
		Needs: tokensByClock{}, Hooks: []Hook{HookWipe},
		Why: "where tokens are said to survive the loss of all data, nobody must have to reset " +
			"the storage by hand"},
	{ID: "E42.2", Name: "tokens-rise-over-a-failover", Run: tokensOver((*Harness).failover, leasesMayStay),
		Needs: all(locker.FencingUntilDataLoss, locker.ToleranceFailover),
		Hooks: []Hook{HookFailover},
		Why:   "a replica that has missed the latest tokens must not give them a second time"},
	{ID: "E42.3", Name: "lease-outlives-a-restart", Run: leaseOverRestart,
		Needs: locker.RestartLeases, Probe: true, Hooks: []Hook{HookRestart},
		Why: "where leases survive a restart, the holder goes on and nobody else gets the lock"},
}

func (h *Harness) restart(t T)  { h.Restart(t) }
func (h *Harness) wipe(t T)     { h.Wipe(t) }
func (h *Harness) failover(t T) { h.Failover(t) }

// leasesEnd is for an event that leaves no lease on the service: a hook that does nothing is found by
// that.
func leasesEnd(locker.Guarantees) bool { return true }

// leasesMayStay is for an event that may keep leases.
func leasesMayStay(locker.Guarantees) bool { return false }

func leasesEndByRestart(g locker.Guarantees) bool {
	return g.Restart == locker.RestartNothing || g.Restart == locker.RestartTokens
}

// tokensOver takes some tokens before the event, through several Lockers, because services reserve
// ranges of tokens and lose them.
func tokensOver(event func(*Harness, T), endsLeases func(locker.Guarantees) bool) func(T, *Harness) {
	return func(t T, h *Harness) {
		l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
		var last locker.Token
		for range 3 {
			for i := range 40 {
				token := step.WantFree(t, []locker.Locker{l, other}[i%2], name)
				step.WantRising(t, last, token)
				last = token
			}
			held := ""
			if endsLeases(h.guarantees) {
				held = acquireAgain(t, l, step.LockName(t), locker.WithoutRenewal()).Name()
			}
			event(h, t)
			token := reacquire(t, l, name)
			step.WantRising(t, last, token)
			last = token
			token = reacquire(t, other, name)
			step.WantRising(t, last, token)
			last = token
			if held != "" { // the default TTL is longer than Slack
				step.FreeWithin(t, h.Slack, other, held)
			}
		}
	}
}

// reacquire gets a lock on a service that has just come back, and releases it.
func reacquire(t T, l locker.Locker, name string) (token locker.Token) {
	t.Helper()
	lease := acquireAgain(t, l, name)
	step.Release(t, lease)
	return lease.Token()
}

// acquireAgain tries several times: an acquisition may fail on a connection that a restart has broken.
func acquireAgain(t T, l locker.Locker, name string, opts ...locker.Option) (lease locker.Lease) {
	t.Helper()
	step.Eventually(t, step.Limit, func() (err error) {
		ctx, cancel := context.WithTimeout(t.Context(), step.Limit/2)
		defer cancel()
		if lease, err = step.AcquireContext(t, ctx, l, name, opts...); err != nil {
			return fmt.Errorf("the lock can't be acquired; the last Acquire = %w", err)
		}
		return nil
	})
	return lease
}

func leaseOverRestart(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name)
	h.Restart(t)
	reacquire(t, other, step.LockName(t)) // is connected again
	step.WantLive(t, lease, other)
	if err := step.Renew(t, lease); err != nil {
		t.Errorf("Renew after a restart = %v, want nil", err)
	}
	step.WantLive(t, lease, other)
	step.Release(t, lease)
	step.WantFree(t, other, name)
}
