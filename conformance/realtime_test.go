package conformance_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance"
)

// TestMemInRealTime runs the suite as it runs on real servers: most cases wait, so they run side by
// side. A case that fails is evaluated again, when the machine does nothing else for this test.
func TestMemInRealTime(t *testing.T) {
	t.Parallel()
	h := memHarness(plain)
	h.TTL = 800 * time.Millisecond
	h.Scale = 0.5
	var mu sync.Mutex
	var once []string
	t.Run("side by side", func(t *testing.T) {
		for _, c := range conformance.Cases() {
			t.Run(c.String(), func(t *testing.T) {
				t.Parallel()
				ids := failed(t, h, c.ID)
				mu.Lock()
				defer mu.Unlock()
				once = append(once, ids...)
			})
		}
	})
	if ids := failing(t, h, once...); len(ids) > 0 {
		t.Errorf("%v fail, want none", ids)
	}
}

// failing evaluates cases on the real clock, and returns the IDs of those that fail three times: while a
// machine stalls, requests are late and leases end.
func failing(t *testing.T, h conformance.Harness, ids ...string) []string {
	t.Helper()
	for range 3 {
		if len(ids) == 0 {
			break
		}
		ids = failed(t, h, ids...)
	}
	return ids
}

// failed returns the IDs of the chosen cases that fail.
func failed(t *testing.T, h conformance.Harness, chosen ...string) (ids []string) {
	t.Helper()
	cases := slices.DeleteFunc(conformance.Cases(), func(c conformance.Case) bool {
		return !slices.Contains(chosen, c.ID)
	})
	err := conformance.Evaluate(t.Context(), h, cases, func(r conformance.Result) {
		if r.Verdict == conformance.Failed || r.Verdict == conformance.Unclaimed && h.Strict {
			ids = append(ids, r.Case.ID)
			t.Logf("%v:\n%s%s", r.Case, r.Log, r.Reason)
		}
	})
	if err != nil {
		t.Error(err)
	}
	return ids
}
