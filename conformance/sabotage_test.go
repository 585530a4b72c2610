package conformance_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fencedlock/locker/conformance"
)

// sabotage is a bug of existing lock libraries, a Locker that has it, and the cases that must fail
// because of it: these, and no others.
type sabotage struct {
	bug     string
	harness conformance.Harness
	named   string // the case that names the bug
	others  string // the other cases that must fail
	perhaps string // cases that fail only when two things happen at the same time
}

func sabotages() []sabotage {
	toy := func(f flaws) conformance.Harness { return toyHarness(f, plain) }
	mem := func(d decorator) conformance.Harness { return memHarness(d) }
	// A Locker that changes a refusal fails each case that asks whether the lock is held.
	const refusals = "A2 A4 A6 A7 A8 A9 B12 B13 B18 B22.2 B22.3 B23 B24 B24a.1 C26 C26.1 C28 C30 C32 C32.1 D33 D33.1 D34 D34.1 D35 D37 D39 " +
		"D39a.1 D39a.2 D39a.3 D39b D39b.1 F48.1 F48.2 G57 H58 H58.1 H59"
	return []sabotage{
		{bug: "release without owner check", harness: toy(flaws{releaseAny: true}), named: "D33.1", others: "B22.2 D34.1 D35 D37"},
		{bug: "renew without owner check", harness: toy(flaws{renewAny: true}), named: "D34.1", others: "D37"},
		{bug: "renewal re-creates a lost lock", harness: toy(flaws{renewCreates: true}), named: "C29.2", others: "D37", perhaps: "C29"},
		{bug: "renewal goes on after Release", harness: toy(flaws{renewGoesOn: true}), named: "C29.1"},

		{bug: "token reset by release", harness: toy(flaws{resetToken: true}), named: "E40",
			others: "B12 E40.1 E41 E41.2 E41.3 E42 E42.1 E42.2 E43 E44 E45 G55"},
		{bug: "random token", harness: toy(flaws{randomToken: true}), named: "E40", others: "B12 E40.1 E41 E41.1 E41.3 E42 E42.1 E42.2 E44"},
		{bug: "equal tokens", harness: toy(flaws{equalTokens: true}), named: "E40",
			others: "B12 E40.1 E41 E41.1 E41.2 E41.3 E42 E42.1 E42.2 E43 E44 E45 E46 G55"},
		{bug: "token is the client's clock", harness: toy(flaws{clientToken: true}), named: "E41.3"},
		{bug: "token re-read from the server", harness: mem(rereadToken), named: "E43", others: "B12 E41 E41.1 E46 G55"},

		{bug: "deadline from the reply's time", harness: toy(flaws{fromReply: true}), named: "F48.1"},
		{bug: "loss only by polling", harness: mem(onLease(pollLoss)), named: "F47",
			others: "A6 A8 A10 C25 C32 C32.1 D34.1 D37.1 D39a.2 E46 F47.1 F48.1 F48.2 F50"},
		{bug: "TTL 0 means forever", harness: mem(onAcquire(lenient)), named: "B20"},
		{bug: "TTL ignored means forever", harness: toy(flaws{forever: true}), named: "C25", others: "C25.1 D33.1 D38 E46 F48.1 F48.2"},
		{bug: "TTL in client wall-clock time", harness: toy(flaws{clientClock: true}), named: "C25", others: "C25.1 F48.1 F48.2"},

		{bug: "cancelled waiter leaves its place in the queue", harness: mem(onAcquire(leavePlace)), named: "B16", others: "A7 B13 B17 D39b"},
		{bug: "cancelled waiter keeps the lock it won", harness: mem(onAcquire(keepWon)), named: "B17"},
		{bug: "Release gives up when its context is cancelled", harness: mem(onLease(giveUp)), named: "B19"},
		{bug: "two acquisitions on one session both hold", harness: toy(flaws{sessionOwner: true}), named: "A2", others: "D35 D39 G53 G54",
			perhaps: "E44"},

		{bug: "ErrHeld reported as success", harness: mem(onAcquire(heldAsSuccess)), named: "A3", others: refusals,
			perhaps: "D36"}, // while the removal of the lost acquisition is under way, the lock is held
		{bug: "ErrHeld reported as nil, nil", harness: mem(onAcquire(heldAsNothing)), named: "A3", others: refusals,
			perhaps: "B11 B14 B17 C27 D36 D39a.4 F48 G56"},
		{bug: "service failure reported as held", harness: mem(onAcquire(failedAsHeld)), named: "A9.1", others: "B11 C27 D36"},

		{bug: "name a blocks a/b", harness: mem(renamed(upToSlash)), named: "A4", others: "H58 J68 J69 J70"},
		{bug: "names lower-cased", harness: mem(renamed(strings.ToLower)), named: "A4", others: "H58 J68"},
		{bug: "names cut", harness: mem(renamed(cutTo100)), named: "A4", others: "H58"},
	}
}

func allSabotages() []sabotage {
	return slices.Concat(sabotages(), furtherSabotages(), inspectionSabotages())
}

func TestSabotage(t *testing.T) {
	for _, s := range allSabotages() {
		t.Run(s.bug, func(t *testing.T) {
			t.Parallel()
			want := append(strings.Fields(s.others), s.named)
			var failed []string
			s.harness.Scale = 0.5
			for _, r := range results(t, inBubbles(s.harness)) {
				if r.Verdict != conformance.Failed {
					continue
				}
				failed = append(failed, r.Case.ID)
				if !slices.Contains(want, r.Case.ID) && !slices.Contains(strings.Fields(s.perhaps), r.Case.ID) {
					t.Errorf("%v fails, and should not:\n%s", r.Case, r.Log)
				}
			}
			for _, id := range want {
				if !slices.Contains(failed, id) {
					t.Errorf("%s passes, and should fail", id)
				}
			}
		})
	}
}

// TestEveryCaseCanFail finds for each case a bug, or a broken promise, that makes it fail.
func TestEveryCaseCanFail(t *testing.T) {
	var fails []string
	for _, s := range allSabotages() {
		fails = append(fails, s.named)
		fails = append(fails, strings.Fields(s.others)...)
	}
	for _, c := range claims() {
		if c.want == conformance.Failed {
			fails = append(fails, c.id)
		}
	}
	for _, c := range conformance.Cases() {
		if !slices.Contains(fails, c.ID) {
			t.Errorf("nothing makes %v fail", c)
		}
	}
}

// results evaluates each case in its own bubble.
func results(t *testing.T, h conformance.Harness) []conformance.Result {
	t.Helper()
	var results []conformance.Result
	for _, c := range conformance.Cases() {
		synctest.Test(t, func(t *testing.T) {
			err := conformance.Evaluate(t.Context(), h, []conformance.Case{c}, func(r conformance.Result) {
				results = append(results, r)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	return results
}
