package conformance_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/middleware"
)

// TestToy shows that the suite passes on a backend that promises little. So in other tests the
// flaws are the reason for a failure.
func TestToy(t *testing.T) {
	conformance.Run(t, inBubbles(toyHarness(flaws{}, plain)))
}

func TestToyWithoutTTL(t *testing.T) {
	conformance.Run(t, inBubbles(toyHarness(flaws{noTTL: true}, plain)))
}

func inBubbles(h conformance.Harness) conformance.Harness {
	h.Slack = 10 * time.Millisecond
	h.Wrap = synctest.Test
	return h
}

// toyHarness gives each case its own toy. A failover loses all data and keeps the clock.
func toyHarness(f flaws, d decorator) conformance.Harness {
	ttl := time.Second
	if f.noTTL {
		ttl = 0
	}
	return conformance.Harness{TTL: ttl, Strict: true, Setup: func(t conformance.T, h *conformance.Harness) {
		s, around := newToy(f), d()
		open := func(link *toyLink, ahead ...time.Duration) locker.Locker { return around(s.open(link, ahead...)) }
		h.Open = func(conformance.T) locker.Locker { return open(newToyLink()) }
		start := func(t conformance.T, ahead ...time.Duration) process.Process {
			link := newToyLink()
			kill, stop := func() { link.Cut(); s.hangUp(link) }, link.Cut
			if f.hasty {
				stop = kill
			}
			return simulate(t, open(link, ahead...), link, kill, stop)
		}
		h.Hooks = conformance.Hooks{
			Linked: func(conformance.T) (locker.Locker, conformance.Link) {
				link := newToyLink()
				return open(link), link
			},
			Process:  func(t conformance.T) process.Process { return start(t) },
			Skewed:   func(t conformance.T, ahead time.Duration) process.Process { return start(t, ahead) },
			Pause:    func(conformance.T) { s.pause() },
			Resume:   func(conformance.T) { s.resume() },
			Down:     func(conformance.T) { s.locked(func() { s.down = true }) },
			Up:       func(conformance.T) { s.locked(func() { s.down = false }) },
			Restart:  func(conformance.T) { s.restart() },
			Wipe:     func(conformance.T) { s.wipe() },
			Failover: func(conformance.T) { s.wipe() },
			Remove:   func(_ conformance.T, name string) { s.remove(name) },
			Requests: func(conformance.T) int64 { return s.count() },
			Residue:  func(conformance.T) string { return s.residue() },
			Prefixed: func(t conformance.T, prefix string) locker.Locker {
				return prefixed(t, open(newToyLink()), prefix)
			},
			Absent: map[conformance.Hook]string{
				conformance.HookURL:     "it has no URL",
				conformance.HookBadURLs: "it has no URL",
			},
		}
	}}
}

func prefixed(t conformance.T, l locker.Locker, prefix string) locker.Locker {
	p, err := middleware.Prefix(l, prefix)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return p
}

// caseName is a test's name in characters that the host of a URL may have.
func caseName(t conformance.T) string {
	name := t.Name()
	return strings.ToLower(strings.NewReplacer("/", "-", ".", "-", "#", "-").Replace(name))
}
