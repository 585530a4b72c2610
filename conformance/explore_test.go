package conformance_test

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// TestExplore searches where nothing is wrong.
func TestExplore(t *testing.T) {
	noTTL := flaws{noTTL: true}
	for what, h := range map[string]conformance.Harness{
		"mem":             inBubbles(memHarness(plain)),
		"toy":             inBubbles(toyHarness(flaws{}, plain)),
		"toy without TTL": inBubbles(toyHarness(noTTL, plain)),
		"toy of sessions": inBubbles(toyHarness(flaws{sessions: true}, plain)),
		"only Open":       inBubbles(bareHarness()),
	} {
		t.Run(what, func(t *testing.T) {
			conformance.Explore(t, h, budget(t))
		})
	}
}

// budget is short. LOCKER_EXPLORE_OPS is another number of operations, such as 1000000.
func budget(t *testing.T) conformance.Budget {
	t.Helper()
	text := os.Getenv("LOCKER_EXPLORE_OPS")
	if text == "" {
		return conformance.Budget{Steps: 3000, Time: 3 * time.Second}
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("LOCKER_EXPLORE_OPS: %v: want a number of operations, such as 1000000", err)
	}
	return conformance.Budget{Steps: n, Time: 24 * time.Hour} // the operations end the search
}

// TestExploreInRealTime searches as it does on real servers.
func TestExploreInRealTime(t *testing.T) {
	t.Parallel()
	h := memHarness(plain)
	h.TTL = 500 * time.Millisecond
	conformance.Explore(t, h, searchTime(t))
}

// searchTime is how long a search in real time lasts: what the environment variable LOCKER_EXPLORE
// says, such as 30m, or else 2 s.
func searchTime(t *testing.T) conformance.Budget {
	t.Helper()
	length := 2 * time.Second
	if text := os.Getenv("LOCKER_EXPLORE"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("LOCKER_EXPLORE: %v: want a duration, such as 30m", err)
		}
	}
	return conformance.Budget{Steps: 1 << 40, Time: length} // the time ends the search
}

// TestExploreFinds searches with bugs, one for each invariant at least.
func TestExploreFinds(t *testing.T) {
	toy := func(f flaws) conformance.Harness { return inBubbles(toyHarness(f, plain)) }
	mem := func(d decorator) conformance.Harness { return inBubbles(memHarness(d)) }
	for _, test := range []struct {
		bug, invariants string // whatever is seen first
		h               conformance.Harness
	}{
		{"release without owner check", "one holder, nothing fails that nothing disturbs", toy(flaws{releaseAny: true})},
		{"slot: release without owner check", "one holder, nothing fails that nothing disturbs", toy(flaws{slotReleaseAny: true})},
		{"slot: renewal re-creates a lost slot", "a free lock is granted", toy(flaws{slotCreates: true})},
		{"two acquisitions on one session both hold", "one holder", toy(flaws{sessionOwner: true})},
		{"loss only by polling", "the end of a lease is known, one holder", mem(onLease(pollLoss))},
		{"ErrHeld reported as nil, nil", "answers are true", mem(onAcquire(heldAsNothing))},
		{"waiter keeps the connection", "calls return", mem(oneConnection)},
		{"random token", "tokens rise", toy(flaws{randomToken: true})},
		{"names lower-cased", "a free lock is granted", mem(renamed(strings.ToLower))},
		{"last come, first served", "waiters are served in order, a free lock is granted", mem(inTurn(true))},
		{"no background renewal", "nothing fails that nothing disturbs", mem(onOptions(func(r *locker.Request) { r.NoRenewal = true }))},
		{"current token is remembered", "the current token is a holder's", mem(remembering)},
		{"release is sent on the connection of the acquisition", "nothing fails that nothing disturbs, a free lock is granted", toy(flaws{releasesOn: true})},
		{"connection that is silent stays in the pool", "nothing fails that nothing disturbs, a free lock is granted", toy(flaws{keepsSilent: true})},
		{"renewal goes on after Release", "nothing stays behind", toy(flaws{renewGoesOn: true})},
	} {
		t.Run(test.bug, func(t *testing.T) {
			t.Parallel()
			c := conformance.Search(t, test.h, conformance.Budget{Steps: 60_000, Time: 10 * time.Minute, Shrink: -1}, 1)
			if c == nil {
				t.Fatal("nothing was found")
			}
			if !strings.Contains(test.invariants, c.Breach.Invariant) {
				t.Errorf("what is broken is: %v\nwant one of: %s", c.Breach, test.invariants)
			}
		})
	}
}

// TestExploreShrinks looks at the program that is shown: short, as Go, and failing when it is run
// again. Two searches run at the same time, though rapid's settings belong to the whole process.
func TestExploreShrinks(t *testing.T) {
	h := inBubbles(toyHarness(flaws{sessionOwner: true}, plain))
	var searches sync.WaitGroup
	for range 2 {
		searches.Go(func() {
			c := conformance.Search(t, h, conformance.Budget{Shrink: 20 * time.Second}, 3)
			if c == nil {
				t.Error("nothing was found")
				return
			}
			if n := len(c.Program.Steps); n > 6 {
				t.Errorf("the program has %d steps, want 6 at most", n)
			}
			if !fails(t, h, c) {
				t.Errorf("the shortest program doesn't fail again as it did at first: %v", c)
			}
			for _, part := range []string{"seed ", "conformance.Replay(t, harness, conformance.Program{", `Do: "acquire"`, "asks for", "BROKEN: " + c.Breach.Invariant, "why it matters"} {
				if !strings.Contains(c.String(), part) {
					t.Errorf("%q is missing in:\n%v", part, c)
				}
			}
		})
	}
	searches.Wait()
}

// fails tries a program ten times, because the order of what happens at one time is random.
func fails(t *testing.T, h conformance.Harness, c *conformance.Counterexample) bool {
	t.Helper()
	for range 10 {
		if again := conformance.Try(t, h, c.Program); again != nil && again.Breach.Invariant == c.Breach.Invariant {
			return true
		}
	}
	return false
}

// TestExploreCountsItsOwnTime has a search that waits for another one as long as it may search. Its
// first program finds nothing, and one of the next does.
func TestExploreCountsItsOwnTime(t *testing.T) {
	t.Parallel()
	b := conformance.Budget{Time: 5 * time.Second, Shrink: -1}
	time.AfterFunc(b.Time, conformance.HoldSearches())
	h := inBubbles(toyHarness(flaws{sessionOwner: true}, plain))
	if c := conformance.Search(t, h, b, 3); c == nil {
		t.Error("nothing was found")
	}
}

// TestExploreFindsLeftGoroutine has a backend whose goroutine doesn't end: in a bubble that is a
// panic of synctest, and must be an answer.
func TestExploreFindsLeftGoroutine(t *testing.T) {
	t.Parallel()
	leak := onAcquire(leakAfterAcquire)
	for what, h := range map[string]conformance.Harness{"bubble": inBubbles(memHarness(leak)), "real time": memHarness(leak)} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := conformance.Program{Lockers: []conformance.Opening{{}}, Names: []string{"-a"}, Steps: []conformance.Step{{Do: "acquire", ID: 1}}}
			c := conformance.Try(t, h, p)
			if c == nil || c.Breach.Invariant != "nothing stays behind" {
				t.Errorf("the result is %v, want that something stays behind", c)
			}
		})
	}
}

// TestExploreEnds has a backend that never rests, so that the clock of the bubble stands still.
func TestExploreEnds(t *testing.T) {
	var stop atomic.Bool
	h := inBubbles(memHarness(onLease(func(l locker.Lease) locker.Lease {
		for !stop.Load() {
			runtime.Gosched()
		}
		return l
	})))
	p := conformance.Program{
		Lockers: []conformance.Opening{{}},
		Names:   []string{"-a"},
		Steps:   []conformance.Step{{Do: "acquire", ID: 1}},
	}
	c := conformance.TryWithin(t, h, p, 100*time.Millisecond)
	stop.Store(true)
	if c == nil || c.Breach.Invariant != "calls return" {
		t.Fatalf("the result is %v, want that a call doesn't return", c)
	}
	<-c.Ended
}
