package redlockmodel_test

import (
	"os"
	"strings"
	"testing"

	model "github.com/fencedlock/locker/internal/redlockmodel"
)

// What is proved, and what breaks it. What that means for users is in docs/redlock.md, "What the
// model checker proves".

// soak makes the worlds larger.
var soak = os.Getenv("LOCKER_SOAK") != ""

// The worlds in which the shipped scripts keep their promises. Each call makes a new one.
var (
	// Two attempts on three servers, with two values of the clients' clocks and three of second
	// tokens.
	plain = func() *tokens { return &tokens{nodes: 3, attempts: 2, proposals: 2, seconds: 3} }

	// The library sends acquire again by itself, as often as it likes.
	repeated = func() *tokens { w := fewer(); w.resends = true; return w }

	// Counters of locks that nobody uses expire.
	unused = func() *tokens { w := fewer(); w.expiry = true; return w }

	// A server loses all, at any time, once.
	forgets = func() *tokens { w := fewer(); w.losses = 1; return w }

	// Or it comes back with a snapshot.
	older = func() *tokens { w := forgets(); w.snapshots = true; return w }

	// Or to older data while its process lives on, as one that was made a replica of its own copy.
	olderAlive = func() *tokens { w := older(); w.alive = true; return w }

	// Or its databases are swapped, and swapped back.
	swapped = func() *tokens { w := fewer(); w.losses, w.swaps = 2, true; return w }

	fiveServers = func() *tokens { w := plain(); w.nodes, w.proposals, w.seconds = 5, 1, 2; return w }

	// With time, of which a TTL takes two ticks: so a request can be on its way for a part of it.
	timed = func() *exclusion { return &exclusion{nodes: 3, attempts: 2, ttl: 2, proposals: 2} }

	timedOlder = func() *exclusion { w := timed(); w.proposals, w.losses, w.snapshots = 1, 1, true; return w }

	timedOlderAlive = func() *exclusion { w := timedOlder(); w.alive = true; return w }

	timedSwapped = func() *exclusion { w := timed(); w.proposals, w.losses, w.swaps = 1, 2, true; return w }

	// One attempt that is over, one that holds, one that comes.
	timedThree = func() *exclusion { w := timed(); w.attempts, w.proposals = 3, few(2); return w }

	timedFive = func() *exclusion { w := timed(); w.nodes, w.proposals = 5, 1; return w }

	oneServer = func() *removal { return &removal{attempts: 2} }
)

// fewer has fewer numbers, since more goes on: in the normal run all clients' clocks show the same.
func fewer() *tokens {
	w := plain()
	w.proposals, w.seconds = few(2), few(2)+1
	return w
}

func few(n model.Token) model.Token {
	if soak {
		return n
	}
	return 1
}

// modelled is any world.
type modelled interface {
	search(t *testing.T) (states int, f *failure)
}

type named struct {
	name  string
	world modelled
}

func TestEveryOrder(t *testing.T) {
	worlds := []named{
		{"tokens", plain()},
		{"tokens, requests repeated", repeated()},
		{"tokens, counters expire", unused()},
		{"tokens, a server forgets", forgets()},
		{"tokens, a server goes back", older()},
		{"tokens, a server goes back and lives on", olderAlive()},
		{"tokens, databases are swapped", swapped()},
		{"exclusion", timed()},
		{"exclusion, a server goes back", timedOlder()},
		{"exclusion, a server goes back and lives on", timedOlderAlive()},
		{"exclusion, databases are swapped", timedSwapped()},
		{"exclusion, three attempts", timedThree()},
		{"tokens, five servers", fiveServers()},
		{"exclusion, five servers", timedFive()},
		{"removal", oneServer()},
	}
	if soak {
		worlds = append(worlds,
			named{"tokens, three attempts", &tokens{nodes: 3, attempts: 3, proposals: 1, seconds: 2}},
			named{"tokens, two losses", &tokens{nodes: 3, attempts: 2, proposals: 2, seconds: 3, losses: 2}},
			named{"exclusion, three attempts, a server forgets", &exclusion{nodes: 3, attempts: 3, ttl: 2, proposals: 1, losses: 1}},
			named{"exclusion, two servers go back", &exclusion{nodes: 3, attempts: 2, ttl: 2, proposals: 2, losses: 2, snapshots: true, alive: true}},
			named{"exclusion, three attempts, databases are swapped", &exclusion{nodes: 3, attempts: 3, ttl: 2, proposals: 1, losses: 2, swaps: true}},
		)
	}
	for _, tc := range worlds {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			states, f := tc.world.search(t)
			t.Logf("%d states", states)
			if f != nil {
				t.Error(f)
			}
		})
	}
}

// Each of these breaks a promise: a condition of the scripts that is left out, something that a
// client does otherwise, or a clock that is not as it is claimed to be. The worlds are the ones of
// TestEveryOrder, with that one difference.
func TestBroken(t *testing.T) {
	const (
		twice    = "was issued twice"
		renewed  = "was renewed after"
		both     = "two leases are valid"
		exists   = "though its removal was confirmed"
		stolen   = "the key of somebody else"
		runsAway = "beyond the server's clock"
	)
	out := func(w *tokens, rules model.Rules) *tokens { w.out = rules; return w }
	timedOut := func(w *exclusion, rules model.Rules) *exclusion { w.out = rules; return w }
	for _, tc := range []struct {
		name  string
		world modelled
		want  string
	}{
		// What clients do.
		{"acquire is sent again by the library, and answered as before", out(repeated(), model.Rules{AcquireOwn: true}), twice},
		{"acquire is sent again by the library after its release", &removal{attempts: 2, resends: true}, exists},
		{"late answers count", func() *tokens { w := plain(); w.countsLate = true; return w }(), twice},
		{"a grant counts as a raise", func() *tokens { w := plain(); w.countsAny = true; return w }(), twice},
		{"a lease counts from the answers", func() *exclusion { w := timed(); w.fromReply = true; return w }(), both},
		{"a lease counts without drift", func() *exclusion { w := timed(); w.noDrift = true; return w }(), both},
		{"a lease counts from its newest renewal", func() *exclusion { w := timed(); w.newest = true; return w }(), both},

		// What servers forget.
		{"a clock is set back to before what was forgotten", func() *tokens { w := forgets(); w.setBack = true; return w }(), twice},
		{"a clock is set back later", func() *tokens { w := forgets(); w.stepsBack = true; return w }(), twice},
		{"counters start at nothing after a loss", out(forgets(), model.Rules{CounterSince: true}), twice},
		{"counters start at the clock after a loss, and clients' clocks are ahead", out(forgets(), model.Rules{CounterAhead: true}), twice},
		{"counters start at nothing when they have expired", out(unused(), model.Rules{CounterFloor: true}), twice},
		{"a server that has forgotten grants (tokens)", out(forgets(), model.Rules{AcquireForgetful: true}), twice},
		{"a server that has forgotten grants (leases)", timedOut(timedOlder(), model.Rules{AcquireForgetful: true}), both},
		{"a server that has gone back raises", out(older(), model.Rules{RaiseForgetful: true}), twice},
		{"a server that has gone back renews", out(older(), model.Rules{RenewForgetful: true}), renewed},
		{"a loss in a process that lives on isn't noticed (tokens)", out(olderAlive(), model.Rules{Replaced: true}), renewed},
		{"a loss in a process that lives on isn't noticed (leases)", timedOut(timedOlderAlive(), model.Rules{Replaced: true}), both},
		{"a memory that is swapped in counts (tokens)", out(swapped(), model.Rules{Aside: true}), twice},
		{"a memory that is swapped in counts (leases)", timedOut(timedSwapped(), model.Rules{Aside: true}), both},

		// The conditions of acquire.
		{"acquire takes what somebody has", timedOut(timed(), model.Rules{AcquireHeld: true}), both},
		{"acquire doesn't compare with the counter", out(plain(), model.Rules{AcquireCompare: true}), twice},
		{"acquire notes a token that it hasn't raised to", out(plain(), model.Rules{AcquireZero: true}), renewed},
		{"acquire doesn't look for a tombstone", &removal{attempts: 2, out: model.Rules{AcquireTomb: true}}, exists},
		{"counters are raised as far as clients like", &removal{attempts: 2, out: model.Rules{Limit: true}}, runsAway},

		// Of raise.
		{"raise doesn't compare with the counter", out(plain(), model.Rules{RaiseCompare: true}), twice},
		{"raise doesn't look whose the key is", &removal{attempts: 2, out: model.Rules{RaiseOwner: true}}, exists},
		{"raise and renew know plain counters only", out(plain(), model.Rules{PlainCounters: true}), renewed},

		// Of renew. That it looks whose the key is has no row: see TestNotNeeded.
		{"renew doesn't look at the token", out(plain(), model.Rules{RenewToken: true}), renewed},
		{"renew sets the key again (tokens)", out(plain(), model.Rules{RenewExists: true}), renewed},
		{"renew sets the key again (removal)", &removal{attempts: 2, out: model.Rules{RenewExists: true}}, exists},

		// Of release.
		{"release doesn't look whose the key is (leases)", timedOut(timedThree(), model.Rules{ReleaseOwner: true}), both},
		{"release doesn't look whose the key is (removal)", &removal{attempts: 2, out: model.Rules{ReleaseOwner: true}}, stolen},
		{"release leaves no tombstone", &removal{attempts: 2, out: model.Rules{ReleaseTomb: true}}, exists},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			states, f := tc.world.search(t)
			switch {
			case f == nil:
				t.Errorf("nothing is broken in %d states", states)
			case !strings.Contains(f.bad, tc.want):
				t.Errorf("%v\nwant: %s", f, tc.want)
			default:
				t.Log(f)
			}
		})
	}
}

// A server raises its counter to a number once, so the token in a key tells the owner as well as
// the owner's name does. To compare both costs nothing and is what a reader expects.
func TestNotNeeded(t *testing.T) {
	for _, w := range []modelled{
		&tokens{nodes: 3, attempts: 2, proposals: 2, seconds: 3, out: model.Rules{RenewOwner: true}},
		&exclusion{nodes: 3, attempts: 2, ttl: 2, proposals: 2, out: model.Rules{RenewOwner: true}},
	} {
		if states, f := w.search(t); f != nil {
			t.Errorf("after %d states: %v", states, f)
		}
	}
}
