package driver_test

import (
	"testing"

	"github.com/fencedlock/locker/driver"
)

// Where a sandbox forbids to read the clock of suspensions, a program must start all the same.
func TestAClockThatCannotBeRead(t *testing.T) {
	const noSuchClock = 9999
	if got := driver.Ahead(noSuchClock); got != driver.Unreadable {
		t.Errorf("a clock that doesn't exist is ahead by %v, want it to be unreadable", got)
	}
	defer driver.SetBootOffset(driver.Unreadable)()
	if got := driver.SystemSuspended(); got != 0 {
		t.Errorf("suspended for %v where no clock says so, want 0", got)
	}
}
