package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
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

// shortCampaign runs one round of some faults on Redis.
func shortCampaign(t *testing.T, faults, libraries string, planted bool) []*row {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: it needs servers in containers")
	}
	c := campaign{
		backends: regexp.MustCompile("^redis$"), faults: regexp.MustCompile(anchored(faults)), libraries: regexp.MustCompile(libraries),
		planted: planted, rounds: 1, seed: 1, end: time.Now().Add(time.Minute), log: t.Output(), result: newResult(t.Context(), 1),
	}
	if err := c.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c.result.Rows
}

// TestPlanted runs locks with a mistake on a real server. Each mistake must be found, and by the
// fault that is made for it.
func TestPlanted(t *testing.T) {
	if err := netns.Usable(); err != nil {
		t.Skip(err)
	}
	rows := shortCampaign(t, "pause|slow-cut", "", true)
	if len(rows) != 4 {
		t.Fatalf("%d rows, want 4", len(rows))
	}
	finds := map[string]string{plantedReply: "slow-cut", plantedRelease: "pause"}
	for _, r := range rows {
		found := strings.Contains(strings.Join(r.Fails, "; "), "two holders believed")
		if finds[r.Library] == r.Fault && !found {
			t.Errorf("the mistake was not found: %s", r.summary())
		}
		if r.Library == plantedReply && r.Fault == "pause" && len(r.Fails) > 0 {
			t.Errorf("a fault that the mistake doesn't matter for fails: %s", r.summary())
		}
	}
}

// TestPause runs this library and a peer through the fault that the fence is for.
func TestPause(t *testing.T) {
	for _, r := range shortCampaign(t, "pause", "locker|redislock", false) {
		if len(r.Fails) > 0 || r.Rounds != 1 {
			t.Errorf("%s", r.summary())
		}
		if r.Fence != (r.Refused > 0) || r.Fence != (r.Lost == 0) {
			t.Errorf("%s; want that the fence refuses the stale write, and that it is lost without one", r.summary())
		}
	}
}
