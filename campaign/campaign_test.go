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
	if text := os.Getenv(taskVariable); text != "" {
		if err := contend(text, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "contender:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
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

// TestEachFault runs one round of each fault on each backend, with this library alone. Faults of the
// victims happen side by side, and those of the servers after them, one by one.
func TestEachFault(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			shortCampaign(t, "", "", "", counterWorkload, false) // skips before the servers are started
			s, err := b.start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.stop(); err != nil {
					t.Error(err)
				}
			}()
			round := func(t *testing.T, f fault) {
				if f.packets {
					if err := netns.Usable(); err != nil {
						t.Skip(err)
					}
				}
				c := shortCampaign(t, "", "", "^"+thisProject+"$", counterWorkload, false)
				if err := c.runFault(t.Context(), b, s, f, workloads[0], c.of(b)); err != nil {
					t.Fatal(err)
				}
				wantSound(t, c.result.Rows)
			}
			t.Run("victims", func(t *testing.T) {
				for _, f := range faults {
					if f.serviceFault == nil {
						t.Run(f.name, func(t *testing.T) {
							t.Parallel()
							round(t, f)
						})
					}
				}
			})
			for _, f := range faults {
				if f.serviceFault != nil {
					t.Run(f.name, func(t *testing.T) { round(t, f) })
				}
			}
		})
	}
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
