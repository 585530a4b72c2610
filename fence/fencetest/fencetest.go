// Package fencetest is the suite for storages that check fencing tokens: each thing that a [fence.Guard] promises, as a case.
//
// It runs for seconds, so it can't see a mark that goes away later: by an expiry, by eviction, or by a clean-up of the
// storage. Package fence says why none of that may happen.
//
//	func TestStorage(t *testing.T) {
//		fencetest.Run(t, fencetest.Harness{
//			Open:  func() (fencetest.Store, error) { return connect(t) },
//			Crash: func() error { return killAndRestart() },
//		})
//	}
package fencetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
)

// Store is a storage as the suite sees it: each resource has a mark and a value, a text that is empty at first.
type Store interface {
	fence.Guard

	// Write claims the resource and writes its value, as one step. When the token is stale it writes nothing.
	Write(ctx context.Context, resource string, token locker.Token, value string) error

	// Read returns the value, as the latest Write that has returned has left it.
	Read(ctx context.Context, resource string) (string, error)
}

// Harness is what the suite needs of whoever runs it.
type Harness struct {
	// Open makes a Store with connections of its own, on the data that all others of this harness have. Whoever passes
	// the harness closes it after the run.
	Open func() (Store, error)

	// Crash ends the storage without warning, and starts it on what it has kept; nil for one that can't, and then the
	// case is skipped. Stores that are open may be used afterwards, or opened anew.
	Crash func() error
}

// Case is one thing that a storage must show.
type Case struct {
	Name string
	Why  string // one sentence that a failing run prints: what goes wrong for users otherwise
	Run  func(ctx context.Context, h *Harness) error

	crash bool // it needs Harness.Crash
}

// Run runs the suite as subtests of t.
func Run(t *testing.T, h Harness) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			if c.crash && h.Crash == nil {
				t.Skip("the harness can't crash the storage")
			}
			if err := c.Run(t.Context(), &h); err != nil {
				t.Errorf("%v\nwhy it matters: %s", err, c.Why)
			}
		})
	}
}

// Cases returns the suite, in order.
func Cases() []Case {
	return []Case{
		{Name: "bad-arguments-are-refused", Run: badArguments,
			Why: "a token of 0 is that of a lease that was never acquired, and must not pass where nobody has claimed yet"},
		{Name: "mark-only-rises", Run: markRises,
			Why: "a stale holder that passes once can write, and one lease must be able to claim as often as it likes"},
		{Name: "stale-write-changes-nothing", Run: staleWrite,
			Why: "this is what the fence is for: what a late holder writes must not get in"},
		{Name: "write-claims", Run: writeClaims,
			Why: "a write that leaves the mark behind lets an older write in after it"},
		{Name: "tokens-are-exact", Run: exact,
			Why: "tokens use the whole int64; storages that count in doubles take 2^53 and 2^53+1 for one number"},
		{Name: "resources-are-apart", Run: apart,
			Why: "a claim of one resource must not shut out the holder of another lock"},
		{Name: "claims-are-seen-by-all", Run: seenByAll,
			Why: "the late holder is another process: a mark that only one connection knows stops nobody"},
		{Name: "claim-and-write-are-one-step", Run: oneStep,
			Why: "a check and a write in two steps let a stale write in between"},
		{Name: "no-update-is-lost", Run: noUpdateLost,
			Why: "read, modify and write behind a claim must not lose what another holder was told is written"},
		{Name: "context-ends-the-claim", Run: cancelled,
			Why: "a caller that gives up must get its context's error, and no verdict on its token"},
		{Name: "marks-survive-a-crash", Run: crashed, crash: true,
			Why: "a mark that was lost while the data was kept lets the late holder in after a restart"},
	}
}

var unique atomic.Int64

// resource returns a name that nobody has used: storages remember marks for ever.
func resource(name string) string {
	return fmt.Sprintf("%s %x-%d", name, time.Now().UnixNano(), unique.Add(1))
}
