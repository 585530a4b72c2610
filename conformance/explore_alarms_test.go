package conformance_test

import (
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/internal/reference"
)

// TestExploreAccepts has programs that Explore took for failures of right backends.
func TestExploreAccepts(t *testing.T) {
	full := reference.Harness(nil, reference.Dialect{})
	mem := inBubbles(memHarness(plain))
	toy := inBubbles(toyHarness(flaws{}, plain))
	noTTL := inBubbles(toyHarness(flaws{noTTL: true}, plain))
	slowWipe := mem // the service loses its data some time after Explore has asked for that
	slowWipe.Setup = func(t conformance.T, h *conformance.Harness) {
		mem.Setup(t, h)
		wipe := h.Wipe
		h.Wipe = func(t conformance.T) {
			time.Sleep(100 * time.Millisecond)
			wipe(t)
			time.Sleep(100 * time.Millisecond)
		}
	}
	closed := conformance.Program{
		Lockers: []conformance.Opening{{Linked: true}},
		Names:   []string{"-a"},
		Steps: []conformance.Step{
			{Do: "acquire", ID: 1, TTL: 40 * time.Second},
			{At: time.Millisecond, Do: "cut"},
			{At: time.Millisecond, Do: "close"},
			{At: 5 * time.Second, Do: "heal"},
			{At: 30 * time.Second, Do: "probe", ID: 1},
		},
	}
	unconfirmed := conformance.Program{
		Lockers: []conformance.Opening{{Linked: true}},
		Names:   []string{"-a"},
		Steps: []conformance.Step{
			{Do: "acquire", ID: 1, TTL: 17500 * time.Millisecond},
			{At: time.Millisecond, Do: "cut"},
			{At: time.Millisecond, Do: "close"},
			{At: 7 * time.Second, Do: "heal"},
			{At: 29 * time.Second, Do: "release", ID: 1},
		},
	}
	const ttl = 500 * time.Millisecond
	heardAgain := conformance.Program{
		Lockers: []conformance.Opening{{}, {Linked: true}},
		Names:   []string{"-a"},
		Steps: []conformance.Step{
			{Do: "acquire", ID: 1, TTL: ttl},
			{At: 1 * time.Millisecond, Do: "acquire", Locker: 1, ID: 2, TTL: ttl, Wait: conformance.Forever},
			{At: 4 * time.Millisecond, Do: "cut", Locker: 1},
			{At: 240 * time.Millisecond, Do: "release", ID: 1},
			{At: 500 * time.Millisecond, Do: "delay", Locker: 1, There: 50 * time.Millisecond},
			{At: 520 * time.Millisecond, Do: "heal", Locker: 1},
			{At: 520 * time.Millisecond, Do: "probe", ID: 2},
			{At: 568 * time.Millisecond, Do: "probe", ID: 2},
		},
	}
	for _, test := range []struct {
		what string
		h    conformance.Harness
		p    conformance.Program
	}{
		{"the reference's locks that a Close could not remove end with their TTL", full, closed},
		{"membackend's locks that a Close could not remove end with their TTL", mem, closed},
		{"a lease is lost while the service loses its data", slowWipe, conformance.Program{
			Lockers: []conformance.Opening{{}, {}},
			Names:   []string{"-a"},
			Steps: []conformance.Step{
				{Do: "acquire", ID: 1, Wait: conformance.Forever},
				{Do: "acquire", ID: 2, Locker: 1, Wait: conformance.Forever},
				{Do: "wipe"},
			},
		}},
		{"an operator ends the connection of several leases", noTTL, conformance.Program{
			Lockers: []conformance.Opening{{Linked: true}},
			Names:   []string{"-a", "-b"},
			Steps: []conformance.Step{
				{Do: "acquire", ID: 1},
				{Do: "acquire", Name: 1, ID: 2},
				{At: time.Second, Do: "remove", ID: 1},
				{At: 2 * time.Second, Do: "renew", ID: 2},
			},
		}},
		{"a Release after a Close that could not remove the lock is not confirmed", full, unconfirmed},
		{"a copy of a request arrives long after the program", full, conformance.Program{
			Lockers: []conformance.Opening{{Linked: true}},
			Names:   []string{"-b"},
			Steps: []conformance.Step{
				{Do: "repeat-request", N: 1, There: 38 * time.Second},
				{At: time.Millisecond, Do: "acquire", ID: 4, TTL: 8500 * time.Millisecond, Wait: conformance.Forever},
			},
		}},
		{"a connection ends behind a cut, and the next call finds that out", mem, conformance.Program{
			Lockers: []conformance.Opening{{Linked: true}},
			Names:   []string{"-a", "-b"},
			Steps: []conformance.Step{
				{At: time.Millisecond, Do: "drop", N: 1},
				{At: time.Millisecond, Do: "acquire", Name: 1, ID: 5, TTL: 970 * time.Millisecond, Wait: conformance.Forever},
				{At: 200 * time.Millisecond, Do: "cut"},
				{At: 200 * time.Millisecond, Do: "restart"},
				{At: 2 * time.Second, Do: "heal"},
				{At: 8 * time.Second, Do: "probe", ID: 1, Count: 1},
			},
		}},
		{"a waiter fails, and the next gets the lock before the call returns", noTTL, conformance.Program{
			Lockers: []conformance.Opening{{Linked: true}},
			Names:   []string{"-a"},
			Steps: []conformance.Step{
				{Do: "drop", N: 1},
				{Do: "acquire", ID: 1, Wait: conformance.Forever},
				{At: time.Millisecond, Do: "heal"},
				{At: time.Second, Do: "acquire", ID: 2, Wait: conformance.Forever},
				{At: 2 * time.Second, Do: "restart"},
			},
		}},
		{"connections were forgotten, and the next call finds that out", toy, conformance.Program{
			Lockers: []conformance.Opening{{Linked: true}},
			Names:   []string{"-a"},
			Steps: []conformance.Step{
				{Do: "acquire", ID: 1},
				{At: time.Second, Do: "release", ID: 1},
				{At: 2 * time.Second, Do: "forget"},
				{At: 3 * time.Second, Do: "heal"}, // which doesn't break what was forgotten
				{At: time.Hour, Do: "acquire", ID: 2},
			},
		}},
		{"a Locker that is heard again is not silent, though messages are late", full, heardAgain},
	} {
		t.Run(test.what, func(t *testing.T) {
			for range 100 { // the order of what happens at one time is random
				if c := conformance.Try(t, test.h, test.p); c != nil {
					t.Fatalf("%v", c)
				}
			}
		})
	}
}
