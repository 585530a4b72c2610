package locker

import "fmt"

// The words of guarantees, as the matrix and the command show them.

func (v Scope) String() string {
	return word(v, "one process", "one machine", "network")
}
func (v Tolerance) String() string {
	return word(v, "none", "failover", "minority of servers")
}
func (v Exclusion) String() string {
	return word(v, "single node", "majority and clocks", "one database", "one kernel", "consensus")
}
func (v Fencing) String() string {
	return word(v, "none", "until data loss with a clock that steps back", "durable")
}
func (v Clocks) String() string {
	return word(v, "all servers and client", "server", "speed only", "none")
}
func (v Order) String() string {
	return word(v, "none", "server queue", "FIFO")
}
func (v Waiting) String() string {
	return word(v, "polled", "notified", "hand-off")
}
func (v Revocation) String() string {
	return word(v, "unseen", "seen at renewal", "seen at once")
}
func (v Restart) String() string {
	return word(v, "nothing", "as persisted", "tokens", "leases and tokens")
}
func (v Inspection) String() string {
	return word(v, "none", "holder", "holder and queue")
}
func (v Breaking) String() string {
	return word(v, "none", "seen at renewal", "seen at once")
}
func (v Cost) String() string {
	return word(v, "none", "low", "medium", "high")
}
func (v ExpiryBy) String() string {
	return word(v, "process", "connection", "session", "key")
}

func (e Expiry) String() string {
	switch {
	case e.By == 0:
		return unstated
	case !e.TTL:
		return e.By.String() + " ends"
	case e.Slack == 0:
		return e.By.String() + ", TTL"
	}
	return fmt.Sprintf("%v, TTL + %v", e.By, e.Slack)
}

const unstated = "unstated"

func word[T ~int](v T, words ...string) string {
	if v < 1 || int(v) > len(words) {
		return unstated
	}
	return words[v-1]
}

// String is one line with all guarantees, and the reason where a locker promises less than its backend usually does.
func (g Guarantees) String() string {
	s := fmt.Sprintf("%s: scope: %v; fault tolerance: %v; mutual exclusion: %v; fencing: %v; clocks assumed: %v; order: %v; waiting: %v; "+
		"dead holder ends by: %v; revocation: %v; restart leaves: %v; inspection: %v; break: %v; round trips: %d; operational cost: %v",
		g.Backend, g.Scope, g.Tolerance, g.Exclusion, g.Fencing, g.Clocks, g.Order, g.Waiting,
		g.Expiry, g.Revocation, g.Restart, g.Inspection, g.Break, g.RoundTrips, g.Cost)
	if g.Because != "" {
		s += " (" + g.Because + ")"
	}
	return s
}
