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
	perhaps string // cases that mostly fail, or mostly pass, by which of two goroutines is first
}

func sabotages() []sabotage {
	toy := func(f flaws) conformance.Harness { return toyHarness(f, plain) }
	mem := func(d decorator) conformance.Harness { return memHarness(d) }
	// A Locker that changes a refusal fails each case that asks whether the lock is held.
	const refusals = "A2 A4 A6 A7 A8 A9 B12 B13 B18 B22.2 B22.3 B23 B24 B24a.1 C26 C26.1 C28 C30 C31.2 C31.3 C32 C32.1 C32.2 D33 D33.1 D34 D34.1 D35 D35.1 D37 D39 " +
		"D39a.1 D39a.2 D39a.3 D39b D39b.1 F48.1 F48.2 F48.4 G57 H58 H58.1 H59 J72.1 J73 J73.1 J73.2 J74 J74.1 J74.2 J75 J75.1 J75.2 J76 J77"
	return []sabotage{
		{bug: "release without owner check", harness: toy(flaws{releaseAny: true}), named: "D33.1", others: "B22.2 D34.1 D35 D35.1 D37 J74 J75 J75.1 S1 S3", perhaps: "L3.2"},
		{bug: "renew without owner check", harness: toy(flaws{renewAny: true}), named: "D34.1", others: "D37 J75 J75.1", perhaps: "L3.2"},
		{bug: "renewal re-creates a lost lock", harness: toy(flaws{renewCreates: true}), named: "C29.2", others: "D37 L4 O4 S2", perhaps: "C29 P13"},
		{bug: "renewal goes on after Release", harness: toy(flaws{renewGoesOn: true}), named: "C29.1", others: "G57"},

		{bug: "token reset by release", harness: toy(flaws{resetToken: true}), named: "E40",
			others: "B12 E40.1 E41 E41.2 E41.3 E42 E42.1 E42.2 E43 E44 E45 G55 H59 J72 J73 J73.2 J77 O3 P1 P12"},
		{bug: "random token", harness: toy(flaws{randomToken: true}), named: "E40", others: "B12 E40.1 E41 E41.1 E41.3 E42 E42.1 E42.2 E44 G55 J72 P12", perhaps: "P1"},
		{bug: "equal tokens", harness: toy(flaws{equalTokens: true}), named: "E40",
			others: "B12 E40.1 E41 E41.1 E41.2 E41.3 E42 E42.1 E42.2 E43 E44 E45 E46 G55 H59 J72 J73 J73.2 J75 J77 O3 P1 P4 P12"},
		{bug: "token is the client's clock", harness: toy(flaws{clientToken: true}), named: "E41.3"},
		{bug: "token re-read from the server", harness: mem(rereadToken), named: "E43", others: "B12 E41 E41.1 E46 G55 J72 J73 J75 O3 P1 P4 P8.1 P10 P12 P14", perhaps: "P13"},

		{bug: "deadline from the reply's time", harness: toy(flaws{fromReply: true}), named: "F48.1", others: "F48.3 F48.4 S5 S6"},
		{bug: "deadline from the reply's time, and keys that outlast it", harness: toy(flaws{fromReply: true, keepsLonger: true}), named: "F48.3", others: "S6"},
		{bug: "loss only by polling", harness: mem(onLease(pollLoss)), named: "F47",
			others: "A6 A8 A10 C25 C32 C32.1 C32.3 D34.1 D37.1 D39a.2 E46 F47.1 F48.1 F48.2 F50 J72 J72.1 J72.2 J74 J74.2 J75 P4 P14 S5", perhaps: "F48.4"},
		{bug: "TTL 0 means forever", harness: mem(onAcquire(lenient)), named: "B20", others: "P9"},
		{bug: "TTL ignored means forever", harness: toy(flaws{forever: true}), named: "C25", others: "C25.1 C31.3 C32.3 D33.1 D38 E46 F48.1 F48.2 F48.4 J74 J74.2 P3 P4 P7 S3 S5"},
		{bug: "TTL in client wall-clock time", harness: toy(flaws{clientClock: true}), named: "C25", others: "C25.1 C32.3 F48.1 F48.2 F48.4 J74 J74.2"},

		{bug: "cancelled waiter leaves its place in the queue", harness: mem(onAcquire(leavePlace)), named: "B16", others: "A7 B13 B17 D39b P2", perhaps: "P5 P6"},
		{bug: "cancelled waiter keeps the lock it won", harness: mem(onAcquire(keepWon)), named: "B17", perhaps: "P5 P6"},
		{bug: "Release gives up when its context is cancelled", harness: mem(onLease(giveUp)), named: "B19", others: "L3 P6"},
		{bug: "two acquisitions on one session both hold", harness: toy(flaws{sessionOwner: true}), named: "A2", others: "C32.2 D35 D39 D39a.5 G53 G54 H59 J73.1 J77 O3 P1 S4",
			perhaps: "E44 L2 P2 P3 P5 P6 P13"},

		{bug: "ErrHeld reported as success", harness: mem(onAcquire(heldAsSuccess)), named: "A3", others: refusals + " L1 L2 L3 L3.2 O1 O2 O3 O4 O5 P1 P2 P3 P4 P5 P7 P8.1 P10 P12 P13 P14 S1 S3 S5",
			perhaps: "D36 P6"}, // while the removal of the lost acquisition is under way, the lock is held
		{bug: "ErrHeld reported as nil, nil", harness: mem(onAcquire(heldAsNothing)), named: "A3", others: refusals + " A6.1 L1 L2 L3 L3.2 O1 O2 O3 O4 O5 P1 P2 P3 P4 P5 P6 P7 P8 P8.1 P10 P11 P13 P14 S1 S3 S5",
			perhaps: "B11 B14 B17 C27 D36 D39a.4 F48 G56 J72.2"},
		{bug: "service failure reported as held", harness: mem(onAcquire(failedAsHeld)), named: "A9.1", others: "B11 C27 D36 L3.1"},

		{bug: "name a blocks a/b", harness: mem(renamed(upToSlash)), named: "A4", others: "H58 H59 J68 J69 J70 J73.3 J77 P8 P8.1"},
		{bug: "names lower-cased", harness: mem(renamed(strings.ToLower)), named: "A4", others: "H58 J68 J73.3"},
		{bug: "names cut", harness: mem(renamed(cutTo100)), named: "A4", others: "H58 P8.1"},
	}
}

func allSabotages() []sabotage {
	return slices.Concat(sabotages(), furtherSabotages(), inspectionSabotages(), breakSabotages(), permitSabotages(), slotSabotages())
}

// TestSabotage evaluates all cases with each bug. Whether a bug is met may depend on which of two
// goroutines is first, so one unexpected verdict says nothing: a case that surprises is evaluated
// several more times, and only a verdict that is always the same is an error.
func TestSabotage(t *testing.T) {
	for _, s := range allSabotages() {
		t.Run(s.bug, func(t *testing.T) {
			t.Parallel()
			must := append(strings.Fields(s.others), s.named)
			may := append(strings.Fields(s.perhaps), must...)
			s.harness.Scale = 0.5
			h := inBubbles(s.harness)
			for _, c := range conformance.Cases() {
				r := resultOf(t, h, c)
				switch failed := r.Verdict == conformance.Failed; {
				case failed && !slices.Contains(may, c.ID) && always(t, h, c, failed):
					t.Errorf("%v fails, and should not:\n%s", c, r.Log)
				case !failed && slices.Contains(must, c.ID) && always(t, h, c, failed):
					t.Errorf("%s passes, and should fail", c.ID)
				}
			}
		})
	}
}

// always reports whether the case goes on to fail, or goes on not to fail.
func always(t *testing.T, h conformance.Harness, c conformance.Case, failed bool) bool {
	t.Helper()
	for range 10 {
		if (resultOf(t, h, c).Verdict == conformance.Failed) != failed {
			return false
		}
	}
	return true
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

// resultOf evaluates a case in a bubble of its own.
func resultOf(t *testing.T, h conformance.Harness, c conformance.Case) (result conformance.Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		err := conformance.Evaluate(t.Context(), h, []conformance.Case{c}, func(r conformance.Result) { result = r })
		if err != nil {
			t.Error(err)
		}
	})
	return result
}
