package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
)

// A row with a loss that shouldn't have happened says why the library gave the lock up. It proves
// nothing if the holder's process stood still.
func TestCountLoss(t *testing.T) {
	const cause = "no majority answered"
	for _, tc := range []struct {
		name  string
		fault fault
		gap   time.Duration
		void  int
	}{
		{"a holder that runs", fault{harmless: true}, stallLimit - 1, 0},
		{"a holder that stands still", fault{harmless: true}, stallLimit, 1},
		{"a holder that is stopped", fault{}, stallLimit, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lost := section{Cause: cause, Gap: tc.gap}
			o := outcome{entry: entry{row: &row{}}, history: history{Hold: &lost, Acknowledged: allUpdates - 1}}
			o.count(tc.fault)
			if o.Void != tc.void || o.Rounds != 1-tc.void {
				t.Fatalf("%d void of %d rounds, want %d of 1", o.Void, o.Rounds+o.Void, tc.void)
			}
			if tc.void == 1 || !tc.fault.harmless {
				return
			}
			fails, _ := check(*o.row, library{name: thisProject}, tc.fault, locker.Guarantees{})
			if !slices.ContainsFunc(fails, func(f string) bool { return strings.Contains(f, cause) }) {
				t.Errorf("check = %q, want the cause %q", fails, cause)
			}
		})
	}
}
