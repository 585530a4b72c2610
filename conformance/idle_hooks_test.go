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
