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
	add(true, "That a holder is alone while it is paused. No lock can do that; the token, checked where the data lives, can.")
	add(g.Exclusion <= locker.ExclusionSingleNode, "One holder after a restart or a failover that has lost data: it is forgotten, and the next one comes.")
	add(g.Exclusion == locker.ExclusionMajority, "One holder when the clock of a server jumps.")
	add(g.Clocks == locker.ClocksServer, "One holder when the server's clock jumps.")
	add(g.Fencing == locker.FencingUntilDataLoss, "Rising tokens after the data is lost and the clock has stepped back.")
	add(network && g.Tolerance <= locker.ToleranceNone, "Locks while its server is away.")
	add(g.Tolerance == locker.ToleranceFailover, "That a failover remembers what was granted just before it.")
	add(!g.Expiry.TTL, "That a holder which is stopped, but not dead, ever loses the lock.")
	add(g.Expiry.TTL && g.Expiry.Slack.Seconds() >= 1, "The lock of a dead holder right after its TTL: it may take %v longer.", g.Expiry.Slack)
	add(g.Order == locker.OrderNone, "An order among waiters.")
	add(g.Order == locker.OrderQueue, "First come, first served to the last detail: the order is that of the server's own queue.")
	add(g.Waiting == locker.WaitingPolled, "That a waiter learns of its turn at once: it asks again and again.")
	add(g.Revocation == locker.RevocationUnseen, "That a holder notices when somebody removes its lock by hand.")
	add(g.Revocation == locker.RevocationRenewal, "That a holder notices at once when somebody removes its lock by hand: it does at its next renewal.")
	add(g.Restart == locker.RestartTokens, "Leases that outlive a restart of the service.")
	return not
}
