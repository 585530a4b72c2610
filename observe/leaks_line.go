package observe

import (
	"slices"

	"github.com/fencedlock/locker"
)

// withoutLines makes one that waits of each call of AcquirePermit that waits. The first in the line
// of a name holds the line's lease, and waits for several slots with calls of their own.
func (f *leakFinder) withoutLines(leases []locker.LeaseInfo) []locker.LeaseInfo {
	lines := make(map[string]bool) // names whose first in the line is here
	for i := range leases {
		info := &leases[i]
		if info.Slot != locker.LineSlot || info.State != locker.StateHeld {
			continue
		}
		lines[info.Name] = true
		since := info.Since
		if p := f.placeOf(info.ID); p != nil {
			since = p.began
		}
		*info = locker.LeaseInfo{ID: info.ID, Name: info.Name, Slot: info.Slot, Holder: info.Holder, State: locker.StateWaiting, Since: since}
	}
	return slices.DeleteFunc(leases, func(info locker.LeaseInfo) bool {
		return info.Slot > 0 && info.State == locker.StateWaiting && lines[info.Name]
	})
}
