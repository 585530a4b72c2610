package main

import (
	"encoding/json"

	"github.com/fencedlock/locker"
)

// matrixRow is a row of the matrix for programs. Keys and values don't change; the values are those
// that --require accepts after the guarantee's name, "unstated" where a backend says nothing.
type matrixRow struct {
	Backend          string    `json:"backend"`
	Scope            string    `json:"scope"`
	FaultTolerance   string    `json:"fault_tolerance"`
	MutualExclusion  string    `json:"mutual_exclusion"`
	Fencing          string    `json:"fencing"`
	ClocksAssumed    string    `json:"clocks_assumed"`
	Order            string    `json:"order"`
	Waiting          string    `json:"waiting"`
	DeadHolderEndsBy endsByRow `json:"dead_holder_ends_by"`
	Revocation       string    `json:"revocation"`
	RestartLeaves    string    `json:"restart_leaves"`
	Inspection       string    `json:"inspection"`
	Break            string    `json:"break"`
	RoundTrips       int       `json:"round_trips"`
	OperationalCost  string    `json:"operational_cost"`
}

type endsByRow struct {
	By      string `json:"by"`
	TTL     bool   `json:"ttl"`
	SlackMS int64  `json:"slack_ms"` // milliseconds beyond the TTL
}

// matrixJSON is an array of objects.
func matrixJSON(rows []locker.Guarantees) string {
	list := make([]matrixRow, len(rows))
	for i, g := range rows {
		list[i] = matrixRow{
			Backend:         g.Backend,
			Scope:           valueOf(g.Scope, "process", "machine", "network"),
			FaultTolerance:  valueOf(g.Tolerance, "none", "failover", "minority"),
			MutualExclusion: valueOf(g.Exclusion, "single-node", "majority", "database", "kernel", "consensus"),
			Fencing:         valueOf(g.Fencing, "none", "until-data-loss", "durable"),
			ClocksAssumed:   valueOf(g.Clocks, "all", "server", "speed", "none"),
			Order:           valueOf(g.Order, "none", "queue", "fifo"),
			Waiting:         valueOf(g.Waiting, "polled", "notify", "hand-off"),
			DeadHolderEndsBy: endsByRow{
				By:      valueOf(g.Expiry.By, "process", "connection", "session", "key"),
				TTL:     g.Expiry.TTL,
				SlackMS: g.Expiry.Slack.Milliseconds(),
			},
			Revocation:      valueOf(g.Revocation, "unseen", "renewal", "at-once"),
			RestartLeaves:   valueOf(g.Restart, "nothing", "as-persisted", "tokens", "leases"),
			Inspection:      valueOf(g.Inspection, "none", "holder", "queue"),
			Break:           valueOf(g.Break, "none", "seen-at-renewal", "seen-at-once"),
			RoundTrips:      g.RoundTrips,
			OperationalCost: valueOf(g.Cost, "none", "low", "medium", "high"),
		}
	}
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		panic(err) // texts and numbers alone
	}
	return string(text) + "\n"
}

// valueOf is the name of a guarantee's value; values count from 1.
func valueOf[T ~int](v T, names ...string) string {
	if v < 1 || int(v) > len(names) {
		return "unstated"
	}
	return names[v-1]
}
