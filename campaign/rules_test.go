package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/etcdbackend"
	"github.com/fencedlock/locker/pgbackend"
	"github.com/fencedlock/locker/redisbackend"
	"github.com/fencedlock/locker/redlockbackend"
	"github.com/fencedlock/locker/zkbackend"
)

func TestRules(t *testing.T) {
	peer, ours := library{name: "a peer"}, library{name: thisProject}
	sound := row{Fault: "cut", Rounds: 1, Acknowledged: allUpdates}
	changed := func(f func(*row)) row {
		r := sound
		f(&r)
		return r
	}
	for _, tc := range []struct {
		name string
		row  row
		l    library
		want string // in the rule that is broken; empty: none is
	}{
		{"sound", sound, ours, ""},
		{"no round", changed(func(r *row) { r.Rounds = 0 }), ours, "all rounds are void"},
		{"no round of a peer", changed(func(r *row) { r.Rounds = 0 }), peer, ""},
		{"no control of a peer", row{Fault: "nothing"}, peer, "all rounds are void"},
		{"control that loses", row{Fault: "nothing", Rounds: 1, Acknowledged: allUpdates, Lost: 1}, peer, "the control has lost 1"},
		{"control that does nothing", row{Fault: "nothing", Rounds: 1}, peer, "has acknowledged 0"},
		{"pause that loses nothing", row{Fault: "pause", Rounds: 1, Acknowledged: allUpdates, Lost: 1}, peer, "proves nothing"},
		{"pause that loses enough", row{Fault: "pause", Rounds: 1, Acknowledged: allUpdates, Lost: 6}, ours, ""},
		{"pause with the fence", row{Fault: "pause", Fence: true, Rounds: 1, Acknowledged: allUpdates}, ours, ""},
		{"pause of a lock without a TTL", row{Fault: "pause", Rounds: 1, Acknowledged: allUpdates}, library{neverExpires: true}, ""},
		{"a peer that overlaps", changed(func(r *row) { r.Overlaps = 1 }), peer, ""},
		{"overlap", changed(func(r *row) { r.Overlaps = 1 }), ours, "two holders believed"},
		{"planted", changed(func(r *row) { r.Overlaps = 1 }), library{planted: noMistake}, "two holders believed"},
		{"lost with the fence", changed(func(r *row) { r.Fence, r.Lost = true, 1 }), ours, "lost with the fence"},
		{"negative margin", changed(func(r *row) { r.Margin = &spread{Least: -1} }), ours, "before the holder knew"},
		{"tokens reversed", changed(func(r *row) { r.Reversed = 1 }), ours, "smaller token"},
		{"a lease that came back", changed(func(r *row) { r.Returned = 1 }), ours, "came back"},
		{"pause of a workload that counts rounds", row{Fault: "pause", Workload: "register", Rounds: 1, Acknowledged: allUpdates, Lost: 1}, ours, ""},
		{"such a pause that loses nothing", row{Fault: "pause", Workload: "register", Rounds: 1, Acknowledged: allUpdates}, ours, "proves nothing"},
		{"tokens", changed(func(r *row) { r.OutOfOrder = 1 }), ours, "out of order"},
		{"not granted", changed(func(r *row) { r.NotGranted = 1 }), ours, "not granted"},
		{"late", changed(func(r *row) { r.Late = 1 }), ours, "after the bound"},
		{"a contender that failed", changed(func(r *row) { r.Failed = 1 }), ours, "failed after the fault"},
		{"one void round", changed(func(r *row) { r.Void = 1 }), ours, ""},
		{"a third of the rounds are void", row{Fault: "cut", Rounds: 12, Acknowledged: 12 * allUpdates, Void: 6}, ours, ""},
		{"more are void", row{Fault: "cut", Rounds: 12, Acknowledged: 12 * allUpdates, Void: 7}, ours, "7 of 19 rounds are void"},
		{"more are void, of a peer", row{Fault: "cut", Rounds: 12, Acknowledged: 12 * allUpdates, Void: 7}, peer, ""},
	} {
		fails, _ := check(tc.row, tc.l, fault{}, locker.Guarantees{})
		got := strings.Join(fails, "; ")
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: check = %q, want %q", tc.name, got, tc.want)
		}
	}
}

// What the guarantees exclude is said, and doesn't fail.
func TestExcluded(t *testing.T) {
	fenced := row{Fence: true, Rounds: 1, Acknowledged: 9, Lost: 1, Overlaps: 1, OutOfOrder: 1, Margin: &spread{Least: -1}}
	const lost, tokens, two, late = "lost with the fence", "out of order", "two holders", "before the holder knew"
	for _, tc := range []struct {
		name    string
		hazard  hazard
		g       locker.Guarantees
		excused []string
	}{
		{"no hazard", noHazard, redisbackend.Guarantees(), nil},
		{"crash, redis", crash, redisbackend.Guarantees(), []string{two, late}},
		{"crash, postgres", crash, pgbackend.Guarantees(), nil},
		{"crash, etcd", crash, etcdbackend.Guarantees(), nil},
		{"data loss, redis", dataLoss, redisbackend.Guarantees(), []string{two, late}},
		{"data loss, redlock", dataLoss, redlockbackend.Guarantees(), []string{two, late}},
		{"data loss, zookeeper", dataLoss, zkbackend.Guarantees(), []string{lost, two, late, tokens}},
		{"client's clock, redis", clientClock, redisbackend.Guarantees(), nil},
		{"servers' clocks, redis", serverClock, redisbackend.Guarantees(), []string{two, late}},
		{"servers' clocks, postgres", serverClock, pgbackend.Guarantees(), []string{two, late}},
		{"servers' clocks, zookeeper", serverClock, zkbackend.Guarantees(), nil},
		{"failover, sentinel", failover, sentinelPromises(), []string{two, late}},
		{"failover, replica", failover, replicaPromises(), []string{two, late}},
		{"failover, etcd", failover, etcdbackend.Guarantees(), nil},
		{"client's clock, redlock", clientClock, redlockbackend.Guarantees(), []string{two, late}},
	} {
		fails, excused := check(fenced, library{name: thisProject}, fault{hazard: tc.hazard}, tc.g)
		for _, what := range []string{lost, tokens, two, late} {
			said := func(all []string) bool { return strings.Contains(strings.Join(all, "; "), what) }
			if want := slices.Contains(tc.excused, what); said(excused) != want || said(fails) == want {
				t.Errorf("%s: %q is excluded: %v, want %v (fails: %q; excluded: %q)", tc.name, what, said(excused), want, fails, excused)
			}
		}
	}
	fails, excused := check(fenced, library{name: "a peer"}, fault{hazard: dataLoss}, locker.Guarantees{})
	if len(fails)+len(excused) > 0 {
		t.Errorf("a peer: check = %q, %q; want nothing, because it promises nothing", fails, excused)
	}
}

// A fault that does no harm to a holder that renews must cost neither an update nor the lock.
func TestHarmless(t *testing.T) {
	for acknowledged, want := range map[int]int{allUpdates: 0, allUpdates - 1: 1} {
		r := row{Rounds: 1, Acknowledged: acknowledged}
		if fails, _ := check(r, library{name: thisProject}, fault{harmless: true}, locker.Guarantees{}); len(fails) != want {
			t.Errorf("%d updates: check = %q, want %d rules", acknowledged, fails, want)
		}
		if fails, _ := check(r, library{name: "a peer"}, fault{harmless: true}, locker.Guarantees{}); len(fails) != 0 {
			t.Errorf("%d updates of a peer: check = %q", acknowledged, fails)
		}
	}
	lost := row{Rounds: 1, Acknowledged: allUpdates, Causes: []string{"not renewed"}}
	if fails, _ := check(lost, library{name: thisProject}, fault{harmless: true}, locker.Guarantees{}); len(fails) != 1 {
		t.Errorf("a lock that was lost, and no update: check = %q, want 1 rule", fails)
	}
}
