package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/fencedlock/locker/conformance"
)

// verdicts collects the results.
type verdicts struct {
	w              io.Writer
	verbose, quiet bool
	all            []conformance.Result
	count          [conformance.Unclaimed + 1]int
	err            error
}

func (v *verdicts) line(format string, args ...any) {
	if v.err == nil && !v.quiet {
		_, v.err = fmt.Fprintf(v.w, format+"\n", args...)
	}
}

func (v *verdicts) add(r conformance.Result) {
	v.all = append(v.all, r)
	v.count[r.Verdict]++
	verdict := r.Verdict.String()
	if r.Verdict == conformance.Skipped {
		verdict = "not tested"
	}
	v.line("%-20s  %s", verdict, r.Case)
	failed := r.Verdict == conformance.Failed
	if v.verbose || failed {
		v.line("    why it matters: %s", r.Case.Why)
	}
	if r.Reason != "" && !failed && (v.verbose || r.Verdict == conformance.Unclaimed) {
		v.line("    %s", printable(r.Reason))
	}
	if failed {
		for line := range strings.SplitSeq(strings.TrimSpace(r.Log), "\n") {
			v.line("    %s", printable(line))
		}
	}
}

// sum prints the totals, and how many are about the backend's claims.
func (v *verdicts) sum() {
	var seen, claimed int
	var missing []conformance.Hook
	for _, r := range v.all {
		missing = append(missing, r.Missing)
		if r.Case.Needs != nil && (r.Verdict == conformance.Passed || r.Verdict == conformance.Failed) {
			claimed++
			if r.Verdict == conformance.Passed {
				seen++
			}
		}
	}
	v.line("\n%d cases: %d passed, %d failed, %d not tested (not claimed, or faults would be needed)", len(v.all),
		v.count[conformance.Passed], v.count[conformance.Failed], v.count[conformance.Skipped]+v.count[conformance.Unclaimed])
	v.line("%d of them test guarantees that the backend claims; %d of those passed", claimed, seen)
	for _, line := range conformance.Unproved(missing) {
		v.line("%s", line)
	}
}

func (v *verdicts) json() {
	type result struct {
		ID      string `json:"id"`
		Name    string `json:"name"`
		Why     string `json:"why"`
		Verdict string `json:"verdict"`
		Reason  string `json:"reason,omitempty"`
		Log     string `json:"log,omitempty"`
	}
	list := make([]result, len(v.all))
	for i, r := range v.all {
		list[i] = result{ID: r.Case.ID, Name: r.Case.Name, Why: r.Case.Why, Verdict: r.Verdict.String()}
		if r.Verdict != conformance.Passed {
			list[i].Reason = r.Reason
		}
		if r.Verdict == conformance.Failed {
			list[i].Log = r.Log
		}
	}
	encoder := json.NewEncoder(v.w)
	encoder.SetIndent("", "  ")
	v.err = errors.Join(v.err, encoder.Encode(list))
}
