package reference

import (
	"time"

	"github.com/fencedlock/locker"
)

// Dialect is what the service leaves out, and rightly says that it does. The zero Dialect leaves
// out nothing.
type Dialect struct {
	ClockTokens      bool // tokens follow the clock: they rise over the loss of all data, and depend on the clock
	SilentRevocation bool // a holder isn't notified that its lock was taken away; its renewal finds out
	Polling          bool // there is no queue: waiters ask again and again
}

// pollPause is how long a waiter that polls waits before it asks again. The engine asks earlier.
const pollPause = 100 * time.Millisecond

func (d Dialect) guarantees() locker.Guarantees {
	g := locker.Guarantees{
		Backend:    scheme,
		Scope:      locker.ScopeNetwork,
		Tolerance:  locker.ToleranceNone,
		Exclusion:  locker.ExclusionSingleNode,
		Fencing:    locker.FencingDurable,
		Clocks:     locker.ClocksSpeed,
		Order:      locker.OrderFIFO,
		Waiting:    locker.WaitingHandOff,
		Expiry:     locker.Expiry{By: locker.ExpiryKey, TTL: true},
		Revocation: locker.RevocationAtOnce,
		Restart:    locker.RestartLeases,
		Inspection: locker.InspectionNone,
		Break:      locker.BreakNone,
		RoundTrips: 1,
		Cost:       locker.CostLow,
	}
	if d.ClockTokens {
		g.Fencing = locker.FencingUntilDataLoss
	}
	if d.SilentRevocation {
		g.Revocation = locker.RevocationRenewal
	}
	if d.Polling {
		g.Order, g.Waiting = locker.OrderNone, locker.WaitingPolled
		g.Expiry.Slack = 500 * time.Millisecond // the longest pause of the engine
	}
	return g
}
