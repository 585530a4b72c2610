package conformance_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// reportVariable is set in a process of this test binary that runs a suite which fails.
const reportVariable = "LOCKER_CONFORMANCE_REPORT"

// TestRunReports checks what a user sees of a run.
func TestRunReports(t *testing.T) {
	sloppy := conformance.Case{ID: "X1", Name: "will-fail", Why: "users suffer", Run: func(t conformance.T, _ *conformance.Harness) {
		t.Errorf("it is broken")
	}}
	hookless := conformance.Case{ID: "X2", Name: "needs-a-hook", Hooks: []conformance.Hook{conformance.HookFailover}}
	unclaimed := conformance.Case{ID: "X3", Name: "needs-a-guarantee", Needs: locker.OrderFIFO}
	bare, strict := bareHarness(), bareHarness()
	bare.Pack = []conformance.Case{sloppy, hookless}
	strict.Strict, strict.Pack = true, []conformance.Case{hookless}
	little := toyHarness(flaws{}, claiming(func(g *locker.Guarantees) { g.Restart = locker.RestartTokens }))
	little.Pack = []conformance.Case{unclaimed}

	for name, test := range map[string]struct {
		harness conformance.Harness
		want    []string
	}{
		"bare": {bare, []string{
			"--- PASS: TestRunReports/A1-free-lock-is-granted",
			"--- FAIL: TestRunReports/X1-will-fail", "it is broken", "why it matters: users suffer",
			"--- SKIP: TestRunReports/X2-needs-a-hook", "the harness has no hook Failover",
		}},
		"strict": {strict, []string{"--- FAIL: TestRunReports/X2-needs-a-hook", "the harness has no hook Failover"}},
		"little": {little, []string{
			"--- FAIL: TestRunReports/E42.3-lease-outlives-a-restart", "the backend claims too little",
			"--- SKIP: TestRunReports/X3-needs-a-guarantee", "not claimed: order must be FIFO or better",
		}},
	} {
		switch os.Getenv(reportVariable) {
		case name:
			conformance.Run(t, inBubbles(test.harness))
		case "":
			t.Run(name, func(t *testing.T) {
				cmd := exec.Command(os.Args[0], "-test.run=^TestRunReports$", "-test.v")
				cmd.Env = append(os.Environ(), reportVariable+"="+name)
				out, err := cmd.CombinedOutput()
				if err == nil {
					t.Errorf("the run passes, and should fail")
				}
				for _, want := range test.want {
					if !strings.Contains(string(out), want) {
						t.Errorf("no %q in the report:\n%s", want, out)
					}
				}
			})
		}
	}
}
