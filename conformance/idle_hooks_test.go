package conformance_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// TestHooksThatDoNothing: a hook with an empty body must not prove anything.
func TestHooksThatDoNothing(t *testing.T) {
	nothing := func(conformance.T) {}
	for id, disable := range map[string]func(*conformance.Hooks){
		"E42":   func(h *conformance.Hooks) { h.Restart = nothing },
		"E42.1": func(h *conformance.Hooks) { h.Wipe = nothing },
		"F48.3": func(h *conformance.Hooks) {
			linked := h.Linked
			h.Linked = func(t conformance.T) (locker.Locker, conformance.Link) {
				l, link := linked(t)
				return l, prompt{link}
			}
		},
	} {
		t.Run(id, func(t *testing.T) {
			h := memHarness(plain)
			setup := h.Setup
			h.Setup = func(t conformance.T, h *conformance.Harness) {
				setup(t, h)
				disable(&h.Hooks)
			}
			cases := conformance.Cases()
			c := cases[slices.IndexFunc(cases, func(c conformance.Case) bool { return c.ID == id })]
			if r := resultOf(t, inBubbles(h), c); r.Verdict != conformance.Failed {
				t.Errorf("%v: %v, want a failure:\n%s", c, r.Verdict, r.Log)
			}
		})
	}
}

// prompt is a link whose replies are never late.
type prompt struct{ conformance.Link }

func (prompt) Delay(time.Duration, time.Duration) {}

// A hook that can't be ended is missing, and the reason names what the harness lacks.
func TestHooksOfTwoPartsNeedBoth(t *testing.T) {
	cases := map[conformance.Hook]conformance.Case{
		conformance.HookPause: {ID: "X1", Hooks: []conformance.Hook{conformance.HookPause}, Run: func(t conformance.T, h *conformance.Harness) { h.PauseService(t)() }},
		conformance.HookDown:  {ID: "X2", Hooks: []conformance.Hook{conformance.HookDown}, Run: func(t conformance.T, h *conformance.Harness) { h.TakeDown(t)() }},
	}
	for lack, test := range map[string]struct {
		hook   conformance.Hook
		remove func(*conformance.Hooks)
	}{
		"":                    {conformance.HookPause, func(*conformance.Hooks) {}},
		"Resume to its Pause": {conformance.HookPause, func(h *conformance.Hooks) { h.Resume = nil }},
		"Pause to its Resume": {conformance.HookPause, func(h *conformance.Hooks) { h.Pause = nil }},
		"hook Pause":          {conformance.HookPause, func(h *conformance.Hooks) { h.Pause, h.Resume = nil, nil }},
		"Up to its Down":      {conformance.HookDown, func(h *conformance.Hooks) { h.Up = nil }},
		"Down to its Up":      {conformance.HookDown, func(h *conformance.Hooks) { h.Down = nil }},
		"hook Down":           {conformance.HookDown, func(h *conformance.Hooks) { h.Down, h.Up = nil, nil }},
	} {
		for _, strict := range []bool{false, true} {
			h := memHarness(plain)
			setup := h.Setup
			h.Strict = strict
			h.Setup = func(t conformance.T, h *conformance.Harness) {
				setup(t, h)
				test.remove(&h.Hooks)
			}
			want, reason, missing := conformance.Skipped, "the harness has no "+lack, test.hook
			switch {
			case lack == "":
				want, reason, missing = conformance.Passed, "", ""
			case strict:
				want = conformance.Failed
			}
			if r := resultOf(t, inBubbles(h), cases[test.hook]); r.Verdict != want || r.Reason != reason || r.Missing != missing {
				t.Errorf("without %q, strict %v: %v, %q, %q, want %v, %q, %q", lack, strict, r.Verdict, r.Reason, r.Missing, want, reason, missing)
			}
		}
	}
}

// Linked is the hook Forgetful if its links can forget connections, unless the harness says why not.
func TestForgetfulIsFoundAtLinked(t *testing.T) {
	cases := conformance.Cases()
	c := cases[slices.IndexFunc(cases, func(c conformance.Case) bool { return c.ID == "F52.1" })]
	for what, test := range map[string]struct {
		plain  bool   // a link that can't forget
		absent string // the reason
		strict bool
		want   conformance.Verdict
		reason string
		opens  bool
	}{
		"can forget":                   {strict: true, want: conformance.Passed, opens: true},
		"can't":                        {plain: true, want: conformance.Skipped, reason: "the harness has no hook Forgetful", opens: true},
		"can't, and strict":            {plain: true, strict: true, want: conformance.Failed, reason: "the harness has no hook Forgetful", opens: true},
		"can't, with a reason":         {plain: true, strict: true, absent: "why", want: conformance.Skipped, reason: "no hook Forgetful: why"},
		"can forget, and has a reason": {strict: true, absent: "why", want: conformance.Skipped, reason: "no hook Forgetful: why"},
	} {
		h, opened := toyHarness(flaws{}, plain), 0
		setup := h.Setup
		h.Strict = test.strict
		h.Setup = func(t conformance.T, h *conformance.Harness) {
			setup(t, h)
			linked := h.Linked
			h.Linked = func(t conformance.T) (locker.Locker, conformance.Link) {
				opened++
				l, link := linked(t)
				if test.plain {
					link = prompt{link}
				}
				return l, link
			}
			if test.absent != "" {
				h.Absent[conformance.HookForgetful] = test.absent
			}
		}
		r := resultOf(t, inBubbles(h), c)
		if r.Verdict != test.want || r.Reason != test.reason || (opened > 0) != test.opens {
			t.Errorf("a link that %s: %v, %q, %d opened, want %v, %q\n%s", what, r.Verdict, r.Reason, opened, test.want, test.reason, r.Log)
		}
	}
}
