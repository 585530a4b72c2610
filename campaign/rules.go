package main

import (
	"fmt"
	"strings"

	"github.com/fencedlock/locker"
)

// allUpdates is how many updates a round has if nothing goes wrong.
const allUpdates = 2*warmUpdates + 1 + rivalUpdates + 1

// check returns the rules that a row breaks, in words, and those that it breaks where the guarantees
// exclude it. The first three are for every library: a round that breaks them proves nothing. The
// others are what this project promises, and what finds the planted mistakes.
func check(r row, l library, f fault, g locker.Guarantees) (broken, excused []string) {
	fails := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	ours := l.name == thisProject || l.planted != nil
	switch {
	case r.Rounds == 0:
		if ours || r.Fault == controlFault || r.Fault == pauseFault {
			fails("all rounds are void")
		}
	case r.Fault == controlFault && r.Acknowledged != r.Rounds*allUpdates:
		fails("the control has acknowledged %d updates, want %d", r.Acknowledged, r.Rounds*allUpdates)
	case r.Fault == controlFault && r.Lost != 0:
		fails("the control has lost %d", r.Lost)
	case r.Fault == pauseFault && !r.Fence && !l.neverExpires && r.Lost*10 <= r.chances():
		fails("the pause has lost %d of %d without a fence, want more than a tenth: otherwise it proves nothing", r.Lost, r.chances())
	}
	if !ours {
		return broken, nil
	}
	not := excluded(f.hazard, g)
	promised := func(reason, format string, args ...any) {
		if reason == "" {
			fails(format, args...)
		} else {
			excused = append(excused, fmt.Sprintf(format, args...)+" ("+reason+")")
		}
	}
	if r.Fence && r.Lost != 0 {
		promised(not.tokens, "%d lost with the fence", r.Lost)
	}
	if r.Overlaps != 0 {
		promised(not.holders, "two holders believed at the same time, in %d rounds", r.Overlaps)
	}
	if r.Margin != nil && r.Margin.Least < 0 {
		promised(not.holders, "a rival was granted the lock %.2f ms before the holder knew", -r.Margin.Least)
	}
	if r.OutOfOrder != 0 {
		promised(not.tokens, "%d tokens are out of order", r.OutOfOrder)
	}
	if f.harmless && l.planted == nil && (r.Acknowledged != r.Rounds*allUpdates || len(r.Causes) > 0) {
		promised(not.holders, "a holder has lost its lock (%s), and %d of %d updates are acknowledged",
			strings.Join(r.Causes, "; "), r.Acknowledged, r.Rounds*allUpdates)
	}
	if r.Reversed != 0 {
		promised(not.tokens, "%d leases have a smaller token than an earlier holder", r.Reversed)
	}
	if r.Returned != 0 {
		fails("%d leases came back after their loss", r.Returned)
	}
	for _, c := range []struct {
		n    int
		what string
	}{
		{r.NotGranted, "rivals were not granted the lock in their time"},
		{r.Late, "grants came more than a second after the bound"},
		{r.Failed, "rounds had a contender that failed after the fault"},
	} {
		if c.n != 0 {
			fails("%d %s", c.n, c.what)
		}
	}
	if r.Void > 2 && 2*r.Void > r.Rounds && l.planted == nil {
		fails("%d of %d rounds are void: run them again with fewer at a time", r.Void, r.Rounds+r.Void)
	}
	return broken, excused
}
