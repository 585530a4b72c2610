package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fencedlock/locker/cmd/locker/internal/bench"
)

// What may be left is said once, and a bad verdict keeps its code.
func TestBenchThatLeavesALock(t *testing.T) {
	left, failed := fmt.Errorf("%w: no answer", bench.ErrLeft), errors.New("disk is full")
	interrupt := &exitError{code: exitSignal + 2, err: errors.New("interrupted")}
	good, bad := bench.Report{}, bench.Report{Verdicts: []bench.Verdict{{Level: bench.Bad, Text: "lost"}}}
	for _, test := range []struct {
		name      string
		interrupt error
		report    bench.Report
		err       error
		code      int
		said      string
	}{
		{"nothing is left", nil, good, nil, 0, ""},
		{"bad", nil, bad, nil, exitOutput, ""},
		{"left", nil, good, left, exitService, "may be left"},
		{"left, and bad", nil, bad, left, exitOutput, "may be left"},
		{"left, bad and interrupted", interrupt, bad, left, exitSignal + 2, "may be left"},
		{"failed, and bad", nil, bad, failed, exitService, "disk is full"},
		{"others use it", nil, good, bench.ErrShared, exitUsage, "--shared"},
	} {
		cmd, _, errOut := command()
		code := report(errOut, benchResult(cmd, test.interrupt, test.report, nil, test.err))
		if code != test.code || test.said == "" && errOut.Len() > 0 || test.said != "" && strings.Count(errOut.String(), test.said) != 1 {
			t.Errorf("%s: code %d, stderr %q, want %d and %q once", test.name, code, errOut, test.code, test.said)
		}
	}
}
