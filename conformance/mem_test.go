package conformance_test

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/membackend"
)

// TestMem runs the suite in bubbles, where waiting takes no time and time is exact: what is late by
// more than 10 ms is wrong.
func TestMem(t *testing.T) {
	conformance.Run(t, inBubbles(memHarness(plain)))
}

// TestMemWithTokenBase runs the suite on Lockers whose tokens start at a base. That must change
// nothing else.
func TestMemWithTokenBase(t *testing.T) {
	conformance.Run(t, inBubbles(memHarness(func() func(locker.Locker) locker.Locker {
		return func(l locker.Locker) locker.Locker {
			l, err := locker.TokenBase(l, 1<<61)
			if err != nil {
				panic(err)
			}
			return l
		}
	})))
}

// TestThirdParty is the example of the package doc.
func TestThirdParty(t *testing.T) {
	conformance.Run(t, inBubbles(bareHarness()))
}

// bareHarness has no hooks.
func bareHarness() conformance.Harness {
	return conformance.Harness{TTL: time.Second, Setup: func(_ conformance.T, h *conformance.Harness) {
		server := membackend.NewServer()
		h.Open = func(conformance.T) locker.Locker { return membackend.New(membackend.WithServer(server)) }
	}}
}

// memHarness gives each case its own service. All hooks are simulated.
func memHarness(d decorator) conformance.Harness {
	return conformance.Harness{TTL: time.Second, Strict: true, Setup: func(t conformance.T, h *conformance.Harness) {
		useServer(t, h, membackend.NewServer(), d())
	}}
}

func useServer(t conformance.T, h *conformance.Harness, s *membackend.Server, around func(locker.Locker) locker.Locker) {
	open := func(opts ...membackend.Option) locker.Locker {
		return around(membackend.New(append(opts, membackend.WithServer(s))...))
	}
	h.Open = func(conformance.T) locker.Locker { return open() }
	h.Hooks = conformance.Hooks{
		Linked: func(conformance.T) (locker.Locker, conformance.Link) {
			link := membackend.NewLink()
			return open(membackend.WithLink(link)), link
		},
		Process: func(t conformance.T) process.Process {
			link := membackend.NewLink()
			return simulate(t, open(membackend.WithLink(link)), link, link.Cut, link.Cut)
		},
		Pause:  func(conformance.T) { s.Pause() },
		Resume: func(conformance.T) { s.Resume() },
		Down:   func(conformance.T) { s.Fail(errors.New("connection refused")) },
		Up:     func(conformance.T) { s.Fail(nil) },
		// The service is this process, and a restart of this process leaves nothing.
		Restart: func(conformance.T) { s.Wipe() },
		Wipe:    func(conformance.T) { s.Wipe() },
		Remove: func(t conformance.T, name string) {
			if !s.Expire(name) {
				t.Errorf("nobody holds %q", name)
			}
		},
		Waiters:  func(t conformance.T, name string) int { return waiters(t, s, name) },
		Requests: func(conformance.T) int64 { return s.Requests() },
		Residue:  func(conformance.T) string { return s.Residue() },
		Prefixed: func(t conformance.T, prefix string) locker.Locker {
			return prefixed(t, open(), prefix)
		},
		// The name is the case's own, so that its service is in the case's bubble.
		URL: "mem://" + caseName(t),
		BadURLs: map[string]string{
			"password":          "mem://user:sesame@name",
			"path":              "mem://name/sesame",
			"negative TTL":      "mem://?ttl=-1s",
			"unknown parameter": "mem://?tls=sesame",
			"no URL":            "mem://%zz:sesame@",
		},
		Secrets: []string{"sesame"},
		Absent: map[conformance.Hook]string{
			conformance.HookFailover:  "there is one server",
			conformance.HookForgetful: "nothing is between a Locker and a server of the same process that could forget a connection",
			conformance.HookSkewed:    "the service and its holders are one process, with one clock",
		},
	}
}

// waiters reads the length of a queue from the description of what is left on the service.
func waiters(t conformance.T, s *membackend.Server, name string) int {
	for entry := range strings.SplitSeq(s.Residue(), "; ") {
		if about, ok := strings.CutPrefix(entry, strconv.Quote(name)+" is held, and "); ok {
			n, err := strconv.Atoi(strings.TrimSuffix(about, " wait"))
			if err != nil {
				t.Fatalf("%v", err)
			}
			return n
		}
	}
	return 0
}

// simulate makes a process of a Locker. Of a process that was killed or stopped, the service hears
// nothing.
func simulate(t conformance.T, l locker.Locker, link conformance.Link, kill, stop func()) process.Process {
	in, commands := io.Pipe()
	answers, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- process.Serve(l, in, out) }()
	t.Cleanup(func() {
		link.Heal()
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
		commands.Close()
		answers.Close() // nobody may have waited for the last answer
		if err := <-served; err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Serve = %v, want nil", err)
		}
	})
	return process.New(commands, answers, kill, stop, link.Heal)
}
