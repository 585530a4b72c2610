package choice

import (
	"fmt"

	"github.com/fencedlock/locker"
)

// notPromised says, in whole sentences, what users of a backend may wrongly expect.
func notPromised(g locker.Guarantees) []string {
	var not []string
	add := func(weak bool, format string, args ...any) {
		if weak {
			not = append(not, fmt.Sprintf(format, args...))
		}
	}
	network := g.Scope >= locker.ScopeNetwork
	add(true, "That a paused holder is alone. No lock can promise that; the token, checked where the data lives, keeps its writes out.")
	add(g.Exclusion <= locker.ExclusionSingleNode, "A single holder after a restart or a failover that has lost data: the lock is forgotten, and two holders are possible.")
	add(g.Exclusion == locker.ExclusionMajority, "A single holder if the clock of a server jumps: two holders are possible then.")
	add(g.Clocks == locker.ClocksServer, "A single holder if the server's clock jumps: two holders are possible then.")
	add(g.Fencing == locker.FencingUntilDataLoss, "Rising tokens after the data is lost and the clock has stepped back.")
	add(network && g.Tolerance <= locker.ToleranceNone, "Locks while the server is down.")
	add(g.Tolerance == locker.ToleranceFailover, "That a failover remembers what was granted just before it.")
	add(!g.Expiry.TTL, "That a holder which is stopped, but not dead, ever loses the lock.")
	add(g.Expiry.TTL && g.Expiry.Slack.Seconds() >= 1, "The lock of a dead holder right after its TTL: it may take %v longer.", g.Expiry.Slack)
	add(g.Order == locker.OrderNone, "An order among waiters.")
	add(g.Order == locker.OrderQueue, "First come, first served in every case: waiters have the order of the server's own queue.")
	add(g.Waiting == locker.WaitingPolled, "That a waiter learns of its turn at once: it asks again and again.")
	add(g.Revocation == locker.RevocationUnseen, "That a holder notices when somebody removes its lock by hand.")
	add(g.Revocation == locker.RevocationRenewal, "That a holder notices at once when somebody removes its lock by hand: it notices at its next renewal.")
	add(g.Restart == locker.RestartTokens, "Leases that outlive a restart of the service.")
	return not
}
