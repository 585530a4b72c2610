//go:build unix

package itest

import (
	"path"
	"slices"
	"testing"

	"github.com/fencedlock/locker/conformance"
)

// disturbing are the hooks that reach the connections, the servers and the holders' processes, whose
// ends a variant sees in its own way.
var disturbing = []conformance.Hook{
	conformance.HookLinked, conformance.HookForgetful, conformance.HookPause, conformance.HookDown,
	conformance.HookRestart, conformance.HookWipe, conformance.HookFailover, conformance.HookRemove,
	conformance.HookProcess, conformance.HookURL, conformance.HookBadURLs,
}

// onVariant reports whether a case of the suite runs on each variant of a service (Sentinel, a
// replica, a pooler) in an ordinary run. A variant has another way to the servers, and other
// faults. So these cases run there: the basic ones (group A), waiting and its cancellation (group B),
// the ones that disturb a connection, a server or a process or open a URL, and the two in which many
// callers share connections (G53, G56). The row that a variant is like runs all cases, and with
// LOCKER_SOAK so does the variant. The cases of a pack run on every row.
func onVariant(c conformance.Case) bool {
	return c.ID[0] == 'A' || c.ID[0] == 'B' || c.ID == "G53" || c.ID == "G56" ||
		slices.ContainsFunc(c.Hooks, func(h conformance.Hook) bool { return slices.Contains(disturbing, h) })
}

// variant makes a harness's Wrap skip what runs on the row like alone.
func variant(like string, wrap func(*testing.T, func(*testing.T))) func(*testing.T, func(*testing.T)) {
	elsewhere := make(map[string]bool)
	for _, c := range conformance.Cases() {
		elsewhere[c.String()] = !onVariant(c)
	}
	return func(t *testing.T, run func(*testing.T)) {
		if elsewhere[path.Base(t.Name())] {
			t.Skipf("runs on %s; with LOCKER_SOAK here, too", like)
		}
		wrap(t, run)
	}
}
