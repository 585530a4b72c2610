package conformance

import (
	"fmt"
	"maps"
	"slices"
)

// proves says what the cases of a hook are about: which guarantees, and under which conditions. The
// hook Waiters isn't in it, because it only makes cases stricter.
var proves = map[Hook]string{
	HookLinked:    "exclusion, expiry and loss while a holder is cut off from the service",
	HookForgetful: "that leases and acquisitions go on when a firewall or NAT has forgotten the connections",
	HookProcess:   "exclusion between processes, and expiry when a process is killed or suspended",
	HookSkewed:    "fencing, clocks and expiry between machines whose clocks differ",
	HookPause:     "exclusion and loss while the service doesn't answer",
	HookDown:      "exclusion and loss while the service refuses connections, and what Inspect, List, CurrentToken and Break say then",
	HookRestart:   "restart: what is left of leases and tokens",
	HookWipe:      "fencing after the service has lost its data",
	HookFailover:  "fault tolerance, and fencing after a failover",
	HookRemove:    "revocation: how a holder learns that an operator has removed its lock",
	HookRequests:  "waiting and renewal: how many requests they cost",
	HookResidue:   "removal: that nothing of a lock is left on the service",
	HookPrefixed:  "that a prefix keeps names apart",
	HookURL:       "that a URL opens the same backend",
	HookBadURLs:   "that a wrong URL fails clearly and in time, without a secret in the error",
}

// Unproved returns a line for each of the hooks that a harness doesn't have, with what is not known
// of the backend because of that. missing may have repetitions and empty values.
func Unproved(missing []Hook) []string {
	var lines []string
	for _, hook := range slices.Sorted(maps.Keys(proves)) {
		if slices.Contains(missing, hook) {
			lines = append(lines, fmt.Sprintf("not proved without the hook %s: %s", hook, proves[hook]))
		}
	}
	return lines
}
