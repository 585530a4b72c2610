package observe

import (
	"slices"

	"github.com/fencedlock/locker"
)

// withoutLines makes one that waits of each call of AcquirePermit that waits. The first in the line
// of a name has the line's token, and asks for further slots with calls of their own.
func withoutLines(leases []locker.LeaseInfo) []locker.LeaseInfo {
	lines := make(map[string]bool) // names whose first in the line is here
	for i := range leases {
		info := &leases[i]
		if info.Slot == locker.LineSlot && info.State == locker.StateWaiting && info.Token != 0 {
			lines[info.Name] = true
			info.Token = 0 // what is waited for has none
		}
	}
	return slices.DeleteFunc(leases, func(info locker.LeaseInfo) bool {
		return info.Slot > 0 && info.State == locker.StateWaiting && lines[info.Name]
	})
}
