//go:build !linux

package driver

import "time"

// systemSuspended takes the wall clock's lead over Go's monotonic clock for suspended time. A wall
// clock that is set forward looks the same, and then ends leases that were still good, which is the
// safe side. A wall clock that is set back can hide a suspension. On Linux neither happens.
func systemSuspended() time.Duration {
	now := time.Now()
	return now.Round(0).Sub(epoch.Round(0)) - now.Sub(epoch)
}
