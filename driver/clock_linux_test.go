package driver

import "testing"

// Where a sandbox forbids reading the clock of suspensions, a program must start nevertheless.
func TestAClockThatCannotBeRead(t *testing.T) {
	const noSuchClock = 9999
	if got := ahead(noSuchClock); got != unreadable {
		t.Errorf("a clock that doesn't exist is ahead by %v, want it to be unreadable", got)
	}
	before := bootOffset
	defer func() { bootOffset = before }()
	bootOffset = unreadable
	if got := systemSuspended(); got != 0 {
		t.Errorf("suspended for %v where no clock says so, want 0", got)
	}
}
