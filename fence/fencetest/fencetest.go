// Package fencetest is the suite for storages that check fencing tokens: it has one case for each
// promise of a [fence.Guard].
//
// The suite runs for seconds, so it can't detect a mark that is lost later: by an expiry, by
// eviction, or by a clean-up of the storage. Package fence says why a mark must never be lost.
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

// Store is a storage as the suite sees it: each resource has a mark and a value. The value is a
// text, and is empty at first.
type Store interface {
	fence.Guard

	// Write claims the resource and writes its value, in one step. If the token is stale, Write
	// writes nothing.
	Write(ctx context.Context, resource string, token locker.Token, value string) error

	// Read returns the value of the latest Write that has returned.
	Read(ctx context.Context, resource string) (string, error)
}

// Harness is what a caller of the suite provides.
type Harness struct {
	// Open makes a Store with its own connections, on the data that all Stores of this harness
	// share. The caller of the suite closes the Stores after the run.
	Open func() (Store, error)

	// Crash ends the storage without warning, and starts it with the data that it has kept. Crash
	// is nil if the storage can't do that; then the case is skipped. Afterwards the suite may use
	// Stores that were open before, or open new ones.
	Crash func() error
}

// Case is one property that a storage must have.
type Case struct {
	Name string
	Why  string // why it matters to users: one sentence, which a failing run prints
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
			Why: "token 0 belongs to a lease that was never acquired, and must be refused even " +
				"where nobody has claimed yet"},
		{Name: "mark-only-rises", Run: markRises,
			Why: "a stale holder that is accepted once can write; the holder of a lease must be " +
				"able to claim any number of times"},
		{Name: "stale-write-changes-nothing", Run: staleWrite,
			Why: "this is the purpose of the fence: the write of a late holder must be refused"},
		{Name: "write-claims", Run: writeClaims,
			Why: "if a write doesn't raise the mark, an older write is accepted after it"},
		{Name: "tokens-are-exact", Run: exact,
			Why: "tokens use the whole int64; storages that count in doubles treat 2^53 and " +
				"2^53+1 as the same number"},
		{Name: "resources-are-apart", Run: apart,
			Why: "a claim of one resource must not exclude the holder of another lock"},
		{Name: "claims-are-seen-by-all", Run: seenByAll,
			Why: "the late holder is another process: a mark that only one connection sees " +
				"stops nobody"},
		{Name: "claim-and-write-are-one-step", Run: oneStep,
			Why: "a check and a write in two steps let a stale write in between"},
		{Name: "no-update-is-lost", Run: noUpdateLost,
			Why: "read, modify and write after a claim must not lose a write that was " +
				"acknowledged to another holder"},
		{Name: "context-ends-the-claim", Run: cancelled,
			Why: "a caller that gives up must get the error of its context, and no decision " +
				"about its token"},
		{Name: "marks-survive-a-crash", Run: crashed, crash: true,
			Why: "if the mark is lost while the data is kept, the late holder is accepted after " +
				"a restart"},
	}
}

var unique atomic.Int64

// resource returns a name that nobody has used, because storages never forget marks.
func resource(name string) string {
	return fmt.Sprintf("%s %x-%d", name, time.Now().UnixNano(), unique.Add(1))
}
