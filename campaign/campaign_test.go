package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/fencedlock/locker/integration/netns"
)

// TestMain makes the test binary a contender, too.
func TestMain(m *testing.M) {
	defer skewed.remove()
	defer preload.remove()
	if text := os.Getenv(taskVariable); text != "" {
		if err := contend(text, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "contender:", err)
			os.Exit(1)
		}
		return
	}
	m.Run()
}

// shortCampaign is one round of what matches the patterns.
func shortCampaign(t *testing.T, backend, fault, library, workload string, planted bool) *campaign {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: it needs servers in containers")
	}
	s, err := newSelection(backend, fault, library, workload, planted)
	if err != nil {
		t.Fatal(err)
	}
	return &campaign{selection: s, rounds: 1, seed: 1, end: time.Now().Add(10 * time.Minute), log: t.Output(), result: newResult(t.Context(), 1)}
}

// faultGroups are faults that need servers of their own: those of the servers, because no other
// round may have the same ones. Faults of victims happen side by side.
var faultGroups = []struct {
	name       string
	has        func(f fault) bool
	sideBySide bool
}{
	{"victims", func(f fault) bool { return f.serviceFault == nil }, true},
	{"servers", func(f fault) bool { return f.serviceFault != nil && !f.leader }, false},
	{"leaders", func(f fault) bool { return f.leader }, false},
}

// TestEachFault runs one round of each fault on each backend, with this library alone.
func TestEachFault(t *testing.T) {
	for _, b := range backends {
		for _, g := range faultGroups {
			t.Run(b.name+"/"+g.name, func(t *testing.T) {
				t.Parallel()
				s := startService(t, b)
				for _, f := range faults {
					if !g.has(f) {
						continue
					}
					t.Run(f.name, func(t *testing.T) {
						if g.sideBySide {
							t.Parallel()
						}
						runRound(t, b, s, f)
					})
				}
			})
		}
	}
}

func startService(t *testing.T, b backend) *service {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: it needs servers in containers")
	}
	s, err := b.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.ttl = b.ttl
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// runRound runs one round of a fault, if the fault exists for that service and on this machine.
func runRound(t *testing.T, b backend, s *service, f fault) {
	t.Helper()
	c := shortCampaign(t, "", f.name, "^"+thisProject+"$", counterWorkload, false)
	if err := c.runFaults(t.Context(), b, s); err != nil {
		t.Fatal(err)
	}
	if len(c.result.Left) > 0 {
		t.Skip(c.result.Left)
	}
	if len(c.result.Rows) == 0 {
		t.Skip("the backend doesn't have this fault")
	}
	wantSound(t, c.result.Rows)
}

// wantSound checks the rows of a library with tokens.
func wantSound(t *testing.T, rows []*row) {
	t.Helper()
	if len(rows) != 2 {
		t.Errorf("%d rows, want one without the fence and one with it", len(rows))
	}
	for _, r := range rows {
		if len(r.Fails) > 0 || r.Rounds != 1 {
			t.Error(r.summary())
		}
	}
}

// TestWorkloadsInPause has each workload on a real server, in the fault that the fence is for.
func TestWorkloadsInPause(t *testing.T) {
	t.Parallel()
	c := shortCampaign(t, "^redis$", "pause", "^"+thisProject+"$", "", false)
	if err := c.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(c.result.Rows) != 2*len(workloads) {
		t.Errorf("%d rows, want two for each workload", len(c.result.Rows))
	}
	for _, r := range c.result.Rows {
		if len(r.Fails) > 0 || r.Rounds != 1 {
			t.Error(r.summary())
		}
		if r.Fence != (r.Refused > 0) || r.Fence != (r.Lost == 0) {
			t.Errorf("%s; want that the fence refuses the stale write, and that it does harm without one", r.summary())
		}
	}
}

// TestPlanted runs the locks with a mistake. Each must be found by the fault that is made for it.
func TestPlanted(t *testing.T) {
	if err := netns.Usable(); err != nil {
		t.Skip(err)
	}
	t.Parallel()
	c := shortCampaign(t, "redis|etcd", "", "", counterWorkload, true)
	c.rounds = 100
	if err := c.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.unfound(); err != nil {
		t.Error(err)
	}
}
