package main

import (
	"fmt"
	"strings"
)

// summary is a row in one line, for the terminal.
func (r *row) summary() string {
	parts := []string{fmt.Sprintf("%s, %s, %s, %s%s: %d rounds", r.Backend, r.Fault, r.Workload, r.Library, fenceWord(r.Fence), r.Rounds)}
	part := func(cond bool, format string, args ...any) {
		if cond {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	part(r.Void > 0, "%d void (%s)", r.Void, r.whyVoid())
	part(true, "%d updates, %d lost", r.Acknowledged, r.Lost)
	part(r.Refused > 0, "%d refused", r.Refused)
	part(r.Overlaps > 0, "both believed in %d rounds, for up to %.2f ms", r.Overlaps, r.LongestOverlap)
	part(r.OutOfOrder > 0, "%d tokens out of order", r.OutOfOrder)
	part(r.Reversed > 0, "%d tokens smaller than an earlier holder's", r.Reversed)
	part(r.Returned > 0, "%d lost leases came back", r.Returned)
	part(r.Margin != nil, "margin %v ms", r.Margin)
	part(r.Grant != nil, "granted after %v ms (bound %.0f ms)", r.Grant, r.Bound)
	part(r.Late > 0, "%d late", r.Late)
	part(r.NotGranted > 0, "%d rivals not granted", r.NotGranted)
	part(r.Failed > 0, "%d failed after the fault", r.Failed)
	for _, e := range r.Excused {
		parts = append(parts, "not promised: "+e)
	}
	for _, f := range r.Fails {
		parts = append(parts, "FAILS: "+f)
	}
	return strings.Join(parts, ", ")
}

func fenceWord(fence bool) string {
	if fence {
		return " with the fence"
	}
	return ""
}

func (s *spread) String() string {
	if s == nil {
		return "–"
	}
	return fmt.Sprintf("%.1f / %.1f / %.1f", s.Least, s.Median, s.Greatest)
}
