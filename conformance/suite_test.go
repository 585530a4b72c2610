package conformance_test

import (
	"context"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// caseID is group, number, the letter of a behaviour that came later, and the part.
var caseID = regexp.MustCompile(`^([A-Z])(\d+)([a-z]?)(?:\.(\d+))?$`)

func TestCasesAreCompleteAndInOrder(t *testing.T) {
	hooks := reflect.TypeFor[conformance.Hooks]()
	var last []string
	for _, c := range conformance.Cases() {
		id := caseID.FindStringSubmatch(c.ID)
		if id == nil {
			t.Errorf("case %q has no ID of the usual form", c.ID)
			continue
		}
		if last != nil && !before(t, last, id) {
			t.Errorf("case %s comes after %s", c.ID, last[0])
		}
		last = id
		if !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)+$`).MatchString(c.Name) {
			t.Errorf("case %s has the name %q, want a few words with hyphens", c.ID, c.Name)
		}
		if len(strings.Fields(c.Why)) < 8 {
			t.Errorf("case %s doesn't say why it matters: %q", c.ID, c.Why)
		}
		if c.Run == nil {
			t.Errorf("case %s has no body", c.ID)
		}
		for _, hook := range c.Hooks {
			if _, ok := hooks.FieldByName(string(hook)); !ok {
				t.Errorf("case %s needs the hook %s, and there is none", c.ID, hook)
			}
		}
		if c.Probe && c.Needs == nil {
			t.Errorf("case %s is a probe for no guarantee", c.ID)
		}
	}
}

// before compares IDs, part by part. A case with parts is its own first one.
func before(t *testing.T, a, b []string) bool {
	number := func(s string) int {
		if s == "" {
			return 0
		}
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i := 1; i < len(a); i++ {
		if a[i] == b[i] {
			continue
		}
		if i == 2 || i == 4 {
			return number(a[i]) < number(b[i])
		}
		return a[i] < b[i]
	}
	return false
}

// TestEveryBehaviourHasACase knows the numbers of the list that the suite was made from, but for what belongs to single
// backends.
func TestEveryBehaviourHasACase(t *testing.T) {
	var have []string
	for _, c := range conformance.Cases() {
		id := caseID.FindStringSubmatch(c.ID)
		have = append(have, id[2]+id[3])
	}
	want := []string{"24a", "39a", "39b"}
	for n := 1; n <= 62; n++ {
		if n != 60 { // hash collisions: of Postgres
			want = append(want, strconv.Itoa(n))
		}
	}
	want = append(want, "63")
	for _, n := range want {
		if !slices.Contains(have, n) {
			t.Errorf("behaviour %s has no case", n)
		}
	}
}

// TestEveryGuaranteeIsNeeded finds for each field of Guarantees a case that runs only where it is claimed, or a reason.
func TestEveryGuaranteeIsNeeded(t *testing.T) {
	otherwise := map[string]string{
		"Backend":    "a name",
		"Scope":      "which processes and machines there are is a matter of the harness: D38, E40.1 and G54 use those it has",
		"Exclusion":  "what it rests on shows when servers fail: the backends' own packs",
		"Clocks":     "clocks of servers are set by the backends' own packs",
		"RoundTrips": "counted by a benchmark",
		"Cost":       "an opinion",
	}
	best := locker.Guarantees{}
	v := reflect.ValueOf(&best).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Int && f.Type() != reflect.TypeFor[int]() {
			f.SetInt(100)
		}
	}
	best.Expiry = locker.Expiry{By: 100, TTL: true}
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		less := best
		reflect.ValueOf(&less).Elem().Field(i).SetZero()
		var needed []string
		for _, c := range conformance.Cases() {
			if c.Needs != nil && c.Needs.Check(best) == nil && c.Needs.Check(less) != nil {
				needed = append(needed, c.ID)
			}
		}
		switch reason := otherwise[name]; {
		case len(needed) == 0 && reason == "":
			t.Errorf("no case needs Guarantees.%s", name)
		case len(needed) > 0 && reason != "":
			t.Errorf("Guarantees.%s is needed by %v after all", name, needed)
		}
	}
}

// claiming makes Lockers claim something else.
func claiming(change func(*locker.Guarantees)) decorator {
	return func() func(locker.Locker) locker.Locker {
		return func(l locker.Locker) locker.Locker { return claimant{l, change} }
	}
}

type claimant struct {
	locker.Locker
	change func(*locker.Guarantees)
}

func (c claimant) Guarantees() locker.Guarantees {
	g := c.Locker.Guarantees()
	c.change(&g)
	return g
}

// TestManifestIsCheckedBothWays changes one claim at a time.
func TestManifestIsCheckedBothWays(t *testing.T) {
	toy := func(d decorator) conformance.Harness { return toyHarness(flaws{}, d) }
	mem := memHarness
	for _, test := range []struct {
		what    string
		harness func(decorator) conformance.Harness
		change  func(*locker.Guarantees)
		id      string
		want    conformance.Verdict
	}{
		{"nothing", mem, func(*locker.Guarantees) {}, "M1", conformance.Passed},
		{"no scope", mem, func(g *locker.Guarantees) { g.Scope = 0 }, "M1", conformance.Failed},
		{"a scope without name", mem, func(g *locker.Guarantees) { g.Scope = 9 }, "M1", conformance.Failed},
		{"no expiry", mem, func(g *locker.Guarantees) { g.Expiry.By = 0 }, "M1", conformance.Failed},
		{"too little: revocation", mem, func(g *locker.Guarantees) { g.Revocation = locker.RevocationUnseen }, "D37", conformance.Unclaimed},
		{"too little: revocation at once", mem, func(g *locker.Guarantees) { g.Revocation = locker.RevocationRenewal }, "D37.1", conformance.Unclaimed},
		{"too little: leases survive", toy, func(g *locker.Guarantees) { g.Restart = locker.RestartTokens }, "E42.3", conformance.Unclaimed},
		{"too much: revocation at once", toy, func(g *locker.Guarantees) { g.Revocation = locker.RevocationAtOnce }, "D37.1", conformance.Failed},
		{"too much: leases survive", mem, func(g *locker.Guarantees) { g.Restart = locker.RestartLeases }, "E42.3", conformance.Failed},
		{"too much: order", toy, func(g *locker.Guarantees) { g.Order = locker.OrderFIFO }, "B22.3", conformance.Failed},
		{"too much: notices", toy, func(g *locker.Guarantees) { g.Waiting = locker.WaitingNotify }, "B12.1", conformance.Failed},
		{"too much: hand-off", toy, func(g *locker.Guarantees) { g.Waiting = locker.WaitingHandOff }, "B21", conformance.Failed},
		{"rightly nothing", toy, func(*locker.Guarantees) {}, "D37.1", conformance.Skipped},
	} {
		t.Run(test.what, func(t *testing.T) {
			i := slices.IndexFunc(conformance.Cases(), func(c conformance.Case) bool { return c.ID == test.id })
			h := inBubbles(test.harness(claiming(test.change)))
			synctest.Test(t, func(t *testing.T) {
				err := conformance.Evaluate(t.Context(), h, conformance.Cases()[i:i+1], func(r conformance.Result) {
					if r.Verdict != test.want {
						t.Errorf("%s: %v (%s), want %v\n%s", test.id, r.Verdict, r.Reason, test.want, r.Log)
					}
				})
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestHarnessAndClaimMustAgree is for a harness that names no TTL for a backend that has one, or the other way round.
func TestHarnessAndClaimMustAgree(t *testing.T) {
	h := memHarness(plain)
	h.TTL = 0
	if err := conformance.Evaluate(t.Context(), h, nil, nil); err == nil || !strings.Contains(err.Error(), "Harness.TTL") {
		t.Errorf("Evaluate without a TTL = %v, want an error about Harness.TTL", err)
	}
}

// TestEvaluate shows what a case may do to its run, and what comes of it.
func TestEvaluate(t *testing.T) {
	var cleaned []string
	cleanup := func(t conformance.T, name string) {
		t.Cleanup(func() {
			if t.Context().Err() == nil {
				cleaned = append(cleaned, "too early")
			}
			cleaned = append(cleaned, name)
		})
	}
	run := func(run func(conformance.T, *conformance.Harness)) conformance.Case {
		return conformance.Case{ID: "X1", Name: "test", Why: "because", Run: run}
	}
	for _, test := range []struct {
		what string
		c    conformance.Case
		want conformance.Verdict
		log  string
	}{
		{"passes", run(func(t conformance.T, _ *conformance.Harness) { t.Logf("here is %s", t.Name()) }), conformance.Passed, "here is X1-test\n"},
		{"fails", run(func(t conformance.T, _ *conformance.Harness) {
			t.Errorf("wrong")
			t.Logf("and on")
		}), conformance.Failed, "wrong\nand on\n"},
		{"ends", run(func(t conformance.T, _ *conformance.Harness) {
			cleanup(t, "first")
			cleanup(t, "second")
			t.Fatalf("over")
			t.Logf("never")
		}), conformance.Failed, "over\n"},
		{"panics", run(func(conformance.T, *conformance.Harness) { panic("at the disco") }), conformance.Failed, "panic: at the disco\n"},
		{"fails in a clean-up", run(func(t conformance.T, _ *conformance.Harness) {
			t.Cleanup(func() { t.Fatalf("late") })
		}), conformance.Failed, "late\n"},
		{"has no hook", conformance.Case{ID: "X1", Hooks: []conformance.Hook{conformance.HookFailover}}, conformance.Skipped, ""},
	} {
		t.Run(test.what, func(t *testing.T) {
			err := conformance.Evaluate(t.Context(), memHarness(plain), []conformance.Case{test.c}, func(r conformance.Result) {
				if r.Verdict != test.want || !strings.HasPrefix(r.Log, test.log) {
					t.Errorf("verdict %v, log %q, want %v, %q", r.Verdict, r.Log, test.want, test.log)
				}
				if r.Verdict == conformance.Failed && r.Reason != "because" {
					t.Errorf("reason %q, want the case's", r.Reason)
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	if want := []string{"second", "first"}; !slices.Equal(cleaned, want) {
		t.Errorf("clean-ups %v, want %v", cleaned, want)
	}
}

func TestEvaluateEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := conformance.Evaluate(ctx, memHarness(plain), conformance.Cases(), func(conformance.Result) { cancel() })
	if err == nil {
		t.Errorf("Evaluate whose context was cancelled = nil, want its error")
	}
}
