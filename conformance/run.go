package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/fencedlock/locker"
)

// Run runs the suite and the harness's pack as subtests of t, one for each case, in order.
//
// A case that needs a guarantee runs wherever the backend claims the guarantee. Where the backend
// doesn't, and where a hook is missing, the subtest is skipped and says why. So `go test -v` shows
// what was not tested.
func Run(t *testing.T, h Harness) {
	var g locker.Guarantees
	h.wrap(t, func(t *testing.T) { g = h.manifest(t) })
	if t.Failed() {
		return
	}
	t.Logf("%v", g)
	var mu sync.Mutex // Wrap may make cases parallel
	var missing []Hook
	t.Cleanup(func() {
		for _, line := range Unproved(missing) {
			t.Log(line)
		}
	})
	for _, c := range slices.Concat(Cases(), h.Pack) {
		t.Run(c.String(), func(t *testing.T) {
			var r Result
			h.wrap(t, func(t *testing.T) { r = runCase(t, c, h, g) })
			mu.Lock()
			missing = append(missing, r.Missing)
			mu.Unlock()
			if r.Verdict == Skipped {
				t.Skip(r.Reason)
			}
		})
	}
}

// runCase runs one case. If it is skipped, the result says why: a Skip inside a bubble of synctest
// has no effect outside.
func runCase(t *testing.T, c Case, h Harness, g locker.Guarantees) Result {
	if c.Probe && c.unclaimed(g) != nil {
		r := c.evaluate(t.Context(), h, g)
		if r.Verdict == Failed || r.Verdict == Unclaimed && h.Strict {
			t.Fatalf("%s", r.Reason)
		}
		r.Verdict = Skipped
		return r
	}
	own := h.prepare(t, g)
	switch r := c.plan(t, own); r.Verdict {
	case Failed:
		t.Fatalf("%s", r.Reason)
	case Skipped:
		return r
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("why it matters: %s", c.Why)
		}
	})
	c.Run(t, own)
	return Result{}
}

// Verdict says how a case ended.
type Verdict int

const (
	Passed    Verdict = iota + 1
	Failed            // see Log
	Skipped           // see Reason
	Unclaimed         // passed, but the backend doesn't claim the guarantee: it claims too little
)

func (v Verdict) String() string {
	if v < Passed || v > Unclaimed {
		return "none"
	}
	return []string{"passed", "failed", "skipped", "seen but not claimed"}[v-1]
}

// Result is the result of one case.
type Result struct {
	Case    Case
	Verdict Verdict
	Reason  string // why it was skipped, why a failure matters, or what is claimed too little
	Missing Hook   // the hook without which the case can't run, unless the harness says why it is absent
	Log     string
}

// Evaluate runs cases outside of a test, and calls report with each result. If ctx ends, Evaluate
// returns the cause, and the case that was running is not reported. Wrap and Pack of the harness
// are not used.
func Evaluate(ctx context.Context, h Harness, cases []Case, report func(Result)) error {
	var g locker.Guarantees
	if r := record(ctx, "manifest", func(t T) { g = h.manifest(t) }); r.Failed() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("the guarantees can't be read: %s", r.text())
	}
	for _, c := range cases {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		result := c.evaluate(ctx, h, g)
		if ctx.Err() != nil { // the end of ctx may be the only reason why the case failed
			return context.Cause(ctx)
		}
		report(result)
	}
	return nil
}

// evaluate runs one case on a recorder.
func (c Case) evaluate(ctx context.Context, h Harness, g locker.Guarantees) Result {
	result := Result{Case: c}
	r := record(ctx, c.String(), func(t T) {
		own := h.prepare(t, g)
		if result = c.plan(t, own); result.Verdict == 0 {
			c.Run(t, own)
		}
	})
	result.Log = r.text()
	if result.Verdict != 0 {
		return result
	}
	switch unclaimed := c.unclaimed(g); {
	case unclaimed == nil && r.Failed():
		result.Verdict, result.Reason = Failed, c.Why
	case unclaimed == nil:
		result.Verdict = Passed
	case r.Failed():
		result.Verdict, result.Reason = Skipped, notClaimed(unclaimed)
	default:
		result.Verdict, result.Reason = Unclaimed, fmt.Sprintf("the backend claims too little; this was seen: %v", unclaimed)
	}
	return result
}

// unclaimed returns what is missing in g of the guarantee that c needs.
func (c Case) unclaimed(g locker.Guarantees) error {
	if c.Needs == nil {
		return nil
	}
	return c.Needs.Check(g)
}

func notClaimed(missing error) string { return fmt.Sprintf("not claimed: %v", missing) }

// plan decides whether c is run. If not, the result is Skipped, or Failed if the harness is incomplete
// and strict, and has the reason. A result without a verdict means that c is run.
func (c Case) plan(t T, h *Harness) Result {
	t.Helper()
	if missing := c.unclaimed(h.guarantees); missing != nil && !c.Probe {
		return Result{Case: c, Verdict: Skipped, Reason: notClaimed(missing)}
	}
	h.findForgetful(t, c)
	hook, lack := h.missing(c)
	if lack == "" {
		return Result{Case: c}
	}
	if reason, absent := h.Absent[hook]; absent {
		return Result{Case: c, Verdict: Skipped, Reason: fmt.Sprintf("no hook %s: %s", hook, reason)}
	}
	verdict := Skipped
	if h.Strict {
		verdict = Failed
	}
	return Result{Case: c, Verdict: verdict, Reason: "the harness has no " + lack, Missing: hook}
}
