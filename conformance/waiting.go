package conformance

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

var waitingCases = []Case{
	{ID: "B12", Name: "waiter-gets-the-released-lock", Run: waiterWakes,
		Why: "a waiter must get the lock once it is released, and where tokens fence, with a larger " +
			"token than the previous holder's"},
	{ID: "B12.1", Name: "waiter-is-told", Run: waiterIsNotified, Needs: locker.WaitingNotify,
		Why: "where the service notifies waiters, a hand-off costs a few round trips, not the " +
			"pause of a waiter that polls"},
	{ID: "B13", Name: "timed-out-wait-matches-both-errors", Run: timedOut,
		Why: "a wait with a time limit must end in time, and its error must say that the lock was " +
			"held and that the time is over"},
	{ID: "B14", Name: "cancelled-wait-keeps-the-cause", Run: cancelled,
		Why: "the caller that cancelled a wait must find its reason in the error"},
	{ID: "B15", Name: "context-that-is-over-asks-for-nothing", Run: overBefore,
		Why: "a caller whose context is over must not send a request that gets a lock for nobody"},
	{ID: "B16", Name: "cancelled-waiter-leaves-nothing", Run: waiterLeaves,
		Why: "the place of a waiter that left must not delay the waiters after it, and such " +
			"places must not accumulate on the service"},
	{ID: "B17", Name: "cancel-racing-with-the-grant", Run: cancelRace,
		Why: "a lock that is granted at the moment of the cancellation belongs to nobody; if it " +
			"is kept and renewed, the name is blocked forever"},
	{ID: "B18", Name: "acquires-context-does-not-end-the-lease", Run: contextEnds,
		Why: "the context of Acquire limits the wait; a lease that ends with it is lost in the " +
			"middle of the work"},
	{ID: "B19", Name: "release-works-with-a-cancelled-context", Run: releaseCancelled,
		Why: "a caller whose context was cancelled must still release its lock, or all others " +
			"wait for the TTL"},
	{ID: "B20", Name: "bad-arguments-fail-before-io", Run: badArguments,
		Why: "arguments that make no sense must be refused by every backend alike, before " +
			"anything is sent"},
	{ID: "B21", Name: "release-wakes-one-waiter", Run: herd, Needs: locker.WaitingHandOff,
		Hooks: []Hook{HookRequests},
		Why: "if a release wakes all waiters, the service is busy with those that lose: with n " +
			"waiters a hand-off costs n requests"},
}

func waiterWakes(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	for range 3 {
		lease := step.Acquire(t, l, name)
		waiter := step.StartAcquire(t, other, name)
		h.WaitQueued(t, name, 1)
		waiter.WantPending(t)
		step.Release(t, lease)
		next := waiter.Granted(t, step.Limit)
		h.wantNext(t, lease.Token(), next.Token())
		step.WantLive(t, next, l)
		step.Release(t, next)
	}
}

// waiterIsNotified compares the median of some hand-offs with what polling takes: in the time for
// which the lock is held here, a waiter that polls has slowed down to longer pauses than the limit.
// One that polls with short pauses is fast enough, and is found by its requests.
func waiterIsNotified(t T, h *Harness) {
	const held, questions = 400 * time.Millisecond, 2
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	before := time.Now()
	for range 10 {
		step.WantFree(t, l, name)
	}
	// Ten acquisitions without contention are added for services that are far away.
	limit := min(50*time.Millisecond, h.Slack) + time.Since(before)
	var handOffs []time.Duration
	var asked, idle []int64
	for range 7 { // a waiter that polls is lucky now and then
		lease := step.Acquire(t, l, name)
		waiter := step.StartAcquire(t, other, name)
		h.WaitQueued(t, name, 1)
		// A waiter that polls must have slowed down to long pauses.
		asked = append(asked, h.requestsIn(t, held))
		waiter.WantPending(t)
		released := time.Now()
		step.Release(t, lease)
		next := waiter.Granted(t, step.Limit)
		handOffs = append(handOffs, time.Since(released))
		step.Release(t, next)
	}
	for range 3 {
		lease := step.Acquire(t, l, name)
		idle = append(idle, h.requestsIn(t, held)) // what keeps sessions alive
		step.Release(t, lease)
	}
	slices.Sort(handOffs)
	if median := handOffs[len(handOffs)/2]; median > limit {
		t.Errorf("hand-offs took %v, want a median below %v: does the waiter poll?", handOffs, limit)
	}
	slices.Sort(asked)
	if median := asked[len(asked)/2]; median > slices.Max(idle)+questions {
		t.Errorf("in %v with a waiter the service got %v requests, and %v without one: the waiter polls", held, asked, idle)
	}
}

// requestsIn counts the requests in d. Without the hook Requests there are none.
func (h *Harness) requestsIn(t T, d time.Duration) int64 {
	t.Helper()
	before := h.requests(t)
	step.Pass(t, d)
	return h.requests(t) - before
}

func badArguments(t T, h *Harness) {
	l, name := h.OpenLocker(t), step.LockName(t)
	step.WantFree(t, l, name)
	before := h.requestsAtRest(t)
	for what, bad := range map[string]string{
		"empty": "", "too long": strings.Repeat("x", locker.MaxName+1), "NUL": name + "\x00", "newline": name + "\n",
		"escape": "\x1b" + name, "C1 control": name + "\u0085", "no UTF-8": name + "\xff", "half a rune": name + "\xc3",
	} {
		if _, err := step.Try(t, l, bad); !errors.Is(err, locker.ErrName) {
			t.Errorf("Acquire with a name that is %s = %v, want ErrName", what, err)
		}
	}
	for _, d := range []time.Duration{0, -1, -time.Hour} {
		if _, err := step.Try(t, l, name, locker.WithTTL(d)); !errors.Is(err, locker.ErrOption) {
			t.Errorf("Acquire with a TTL of %v = %v, want ErrOption", d, err)
		}
		if _, err := step.Try(t, l, name, locker.WithMaxHold(d)); !errors.Is(err, locker.ErrOption) {
			t.Errorf("Acquire with a longest hold of %v = %v, want ErrOption", d, err)
		}
		if _, err := step.Try(t, l, name, locker.WithMinHold(d)); !errors.Is(err, locker.ErrOption) {
			t.Errorf("Acquire with a minimum hold of %v = %v, want ErrOption", d, err)
		}
	}
	if _, err := step.Try(t, l, name, locker.WithMinHold(time.Minute), locker.WithMaxHold(time.Second)); !errors.Is(err, locker.ErrOption) {
		t.Errorf("Acquire with a minimum hold that is longer than the longest one = %v, want ErrOption", err)
	}
	if n := h.requests(t) - before; n != 0 {
		t.Errorf("the service has got %d requests, want none", n)
	}
	step.WantFree(t, l, name)
}

// herd counts the requests of a hand-off. It takes the median of some hand-offs, because all 50
// waiters are renewed now and then. A few waiters may have something to do, such as those that come
// near the head of a queue, or log in again after a long wait; but not half of them. Where the order
// is promised, the first in the long line is the next holder; this needs the hook Waiters.
func herd(t T, h *Harness) {
	const waiters, handOffs, limit = 50, 9, 25
	name, inOrder := step.LockName(t), h.Waiters != nil && locker.OrderFIFO.Check(h.guarantees) == nil
	lease := step.Acquire(t, h.OpenLocker(t), name)
	var waiting []*step.Attempt
	for i := range waiters {
		waiting = append(waiting, step.StartAcquire(t, h.OpenLocker(t), name))
		if inOrder {
			h.WaitQueued(t, name, i+1)
		}
	}
	h.WaitQueued(t, name, waiters)
	var counts []int64
	for range handOffs {
		before := h.requests(t)
		step.Release(t, lease)
		next := 0
		if inOrder {
			grantedInTurn(t, step.Limit, waiting, next)
		} else {
			next = step.FirstGranted(t, step.Limit, waiting)
		}
		lease = waiting[next].Lease
		waiting = slices.Delete(waiting, next, next+1)
		h.WaitQueued(t, name, len(waiting))
		counts = append(counts, h.requests(t)-before)
	}
	for inOrder && len(waiting) > 0 { // the end of a long line may be another queue
		step.Release(t, lease)
		lease = grantedInTurn(t, step.Limit, waiting, 0)
		waiting = waiting[1:]
	}
	slices.Sort(counts)
	if median := counts[handOffs/2]; median > limit {
		t.Errorf("a hand-off among %d waiters took %v requests, want at most %d", waiters, counts, limit)
	}
}
