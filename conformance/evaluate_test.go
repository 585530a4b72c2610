package conformance_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fencedlock/locker/conformance"
)

// TestEvaluate runs cases that end in different ways.
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

// A case that was interrupted says nothing about the backend.
func TestEvaluateDropsTheInterruptedCase(t *testing.T) {
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cases := []conformance.Case{
		{ID: "X1", Run: func(conformance.T, *conformance.Harness) {}},
		{ID: "X2", Run: func(t conformance.T, _ *conformance.Harness) {
			cancel(stopped)
			<-t.Context().Done()
			t.Fatalf("%v", t.Context().Err())
		}},
		{ID: "X3", Run: func(t conformance.T, _ *conformance.Harness) { t.Fatalf("this is run") }},
	}
	var reported []string
	err := conformance.Evaluate(ctx, memHarness(plain), cases, func(r conformance.Result) { reported = append(reported, r.Case.ID) })
	if !errors.Is(err, stopped) || !slices.Equal(reported, []string{"X1"}) {
		t.Errorf("Evaluate = %v, reported %v, want %v and X1 alone", err, reported, stopped)
	}
}
