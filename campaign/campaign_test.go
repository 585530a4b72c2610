package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
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

// shortCampaign is one round of what matches the patterns, with this project alone.
func shortCampaign(t *testing.T, backend, fault, workload string) *campaign {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: it needs servers in containers")
	}
	s, err := newSelection(backend, fault, "^"+thisProject+"$", workload, false)
	if err != nil {
		t.Fatal(err)
	}
	return &campaign{
		selection: s, rounds: 1, parallel: 16, seed: 1, end: time.Now().Add(10 * time.Minute),
		log: t.Output(), result: newResult(t.Context(), 1),
	}
}

// TestEachFault runs one round of each fault on each backend.
func TestEachFault(t *testing.T) { testFaults(t, false) }

// TestSample runs one round of each fault on one backend, and the control on each.
func TestSample(t *testing.T) { testFaults(t, true) }

// testFaults runs rounds. Faults with rows that have none but void ones, as on a machine that stalled, run again
// with few rounds at a time.
func testFaults(t *testing.T, sample bool) {
	c := shortCampaign(t, "", "", counterWorkload)
	c.sample = sample
	if err := c.run(t.Context()); err != nil {
		t.Error(err)
	}
	if again := voidFaults(c.result.Rows); len(again) > 0 {
		c.rounds, c.parallel, c.faults = 2, 2, regexp.MustCompile("^("+strings.Join(again, "|")+")$")
		if err := c.run(t.Context()); err != nil {
			t.Error(err)
		}
		c.faults = regexp.MustCompile("")
	}
	for _, b := range backends {
		for _, f := range faults {
			if !c.has(b, f) {
				continue
			}
			t.Run(b.name+"/"+f.name, func(t *testing.T) {
				if why := c.result.Left[b.name+", "+f.name]; why != "" {
					t.Skip(why)
				}
				wantSound(t, slices.DeleteFunc(backendRows(c.result, b.name), func(r *row) bool { return r.Fault != f.name }))
			})
		}
	}
}

func voidFaults(rows []*row) (names []string) {
	for _, r := range rows {
		if r.Rounds == 0 {
			names = append(names, regexp.QuoteMeta(r.Fault))
		}
	}
	return names
}

// wantSound checks the rows of a library with tokens.
func wantSound(t *testing.T, rows []*row) {
	t.Helper()
	if len(rows) != 2 {
		t.Errorf("%d rows, want one without the fence and one with it", len(rows))
	}
	for _, r := range rows {
		if r.Rounds == 0 && slices.Contains(r.Why, tooBusy) {
			t.Skip(r.summary()) // what was found proves nothing
		}
		if len(r.Fails) > 0 || r.Rounds == 0 {
			t.Error(r.summary())
		}
	}
}

// TestWorkloadsInPause has each workload on a real server, in the fault that the fence is for.
func TestWorkloadsInPause(t *testing.T) {
	c := shortCampaign(t, "^redis$", pauseFault, "")
	if err := c.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(c.result.Rows) != 2*len(workloads) {
		t.Errorf("%d rows, want two for each workload", len(c.result.Rows))
	}
	for _, r := range c.result.Rows {
		if slices.Contains(r.Why, tooBusy) {
			t.Skip(r.summary()) // what was found proves nothing
		}
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
	c := shortCampaign(t, "redis|etcd", "", counterWorkload)
	var err error
	if c.selection, err = newSelection("redis|etcd", "", "", counterWorkload, true); err != nil {
		t.Fatal(err)
	}
	c.rounds = 100
	if err := c.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.unfound(); err != nil {
		t.Error(err)
	}
}
