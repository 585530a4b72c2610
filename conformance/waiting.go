package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

var waitingCases = []Case{
	{ID: "B12", Name: "waiter-gets-the-released-lock", Run: waiterWakes,
		Why: "a waiter must get the lock once it is released, with a larger token than the " +
			"previous holder's"},
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
		step.WantRising(t, lease.Token(), next.Token())
		step.WantLive(t, next, l)
		step.Release(t, next)
	}
}

// waiterIsNotified compares the median of some hand-offs with what polling takes: in the time for
// which the lock is held here, a waiter that polls has slowed down to longer pauses than the limit.
func waiterIsNotified(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	before := time.Now()
	for range 10 {
		step.WantFree(t, l, name)
	}
	// Ten acquisitions without contention are added for services that are far away.
	limit := min(50*time.Millisecond, h.Slack) + time.Since(before)
	var handOffs []time.Duration
	for range 7 { // a waiter that polls is lucky now and then
		lease := step.Acquire(t, l, name)
		waiter := step.StartAcquire(t, other, name)
		// A waiter that polls must have slowed down to long pauses.
		step.Pass(t, 400*time.Millisecond)
		waiter.WantPending(t)
		released := time.Now()
		step.Release(t, lease)
		next := waiter.Granted(t, step.Limit)
		handOffs = append(handOffs, time.Since(released))
		step.Release(t, next)
	}
	slices.Sort(handOffs)
	if median := handOffs[len(handOffs)/2]; median > limit {
		t.Errorf("hand-offs took %v, want a median below %v", handOffs, limit)
	}
}

func timedOut(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name)
	limit := 2 * h.short()
	before := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	a := step.StartAcquireContext(t, ctx, other, name)
	a.Refused(t, limit+h.Slack, locker.ErrHeld, context.DeadlineExceeded)
	if took := time.Since(before); took < limit {
		t.Errorf("a wait of %v was over after %v", limit, took)
	}
	h.WaitQueued(t, name, 0)
	step.WantLive(t, lease, other)
	step.Release(t, lease)
	step.WantFree(t, other, name)
}

func cancelled(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name)
	a := step.StartAcquire(t, other, name)
	h.WaitQueued(t, name, 1)
	shutdown := errors.New("shutting down")
	a.Cancel(shutdown)
	a.Refused(t, h.Slack, context.Canceled, shutdown)
	step.Release(t, lease)
	step.FreeWithin(t, h.RemovalLimit(), other, name)
}

func overBefore(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	step.WantFree(t, l, name)
	gone := errors.New("the caller has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	before := h.requestsAtRest(t)
	for _, opts := range [][]locker.Option{{locker.NoWait()}, nil} {
		if _, err := step.AcquireContext(t, ctx, l, name, opts...); !errors.Is(err, context.Canceled) || !errors.Is(err, gone) {
			t.Errorf("Acquire with a context that is over = %v, want its error and its cause", err)
		}
	}
	if n := h.requests(t) - before; n != 0 {
		t.Errorf("the service has got %d requests, want none", n)
	}
	step.WantFree(t, other, name)
	h.WaitNoResidue(t)
}

func waiterLeaves(t T, h *Harness) {
	l, first, second, name := h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name)
	leaver := step.StartAcquire(t, first, name)
	h.WaitQueued(t, name, 1)
	next := step.StartAcquire(t, second, name)
	h.WaitQueued(t, name, 2)
	leaver.Cancel(nil)
	leaver.Refused(t, h.Slack, context.Canceled)
	h.WaitQueued(t, name, 1)
	step.Release(t, lease)
	step.Release(t, next.Granted(t, h.HandOffLimit()))
	step.WantFree(t, first, name)
	h.WaitNoResidue(t)
}

func cancelRace(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	won := 0
	for i := range h.rounds(1000) {
		began := time.Now()
		lease := step.Acquire(t, l, name)
		if took := time.Since(began); took > h.HandOffLimit() {
			t.Fatalf("in round %d Acquire took %v: an acquisition that was cancelled has kept the lock", i, took)
		}
		waiter := step.StartAcquire(t, other, name)
		if i%2 == 0 && h.Waiters != nil {
			h.WaitQueued(t, name, 1)
		}
		step.Race(t, func() error {
			yield(50 - i%100) // the moment of the cancellation moves over the moment of the grant
			return lease.Release(t.Context())
		}, func() error {
			yield(i%100 - 50)
			waiter.Cancel(nil)
			return nil
		})
		if !waiter.Returned(step.Limit) {
			t.Fatalf("Acquire has not returned %v after its cancellation", step.Limit)
		}
		if waiter.Err == nil {
			won++
			step.Release(t, waiter.Lease)
		} else {
			waiter.Refused(t, 0, context.Canceled)
		}
	}
	t.Logf("the grant was faster %d times", won)
	step.FreeWithin(t, h.Slack, l, name)
	h.WaitNoResidue(t)
}

func contextEnds(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	ctx, cancel := context.WithCancel(t.Context())
	lease, err := step.AcquireContext(t, ctx, l, name, h.ttl()...)
	cancel()
	if err != nil {
		t.Fatalf("Acquire = %v, want a lease", err)
	}
	step.Pass(t, 4*h.short()) // the lease must be renewed though Acquire's context is over
	step.WantLive(t, lease, other)
	step.Release(t, lease)
}

func releaseCancelled(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := step.MustReturn(t, step.Limit, "Release", func() error { return lease.Release(ctx) }); err != nil {
		t.Errorf("Release with a cancelled context = %v, want nil", err)
	}
	step.WantFree(t, other, name)
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
	}
	if n := h.requests(t) - before; n != 0 {
		t.Errorf("the service has got %d requests, want none", n)
	}
	step.WantFree(t, l, name)
}

// herd counts the requests of a hand-off. It takes the median of some hand-offs, because all 50
// waiters are renewed now and then. A few waiters may have something to do, such as those that come
// near the head of a queue, or log in again after a long wait; but not half of them.
func herd(t T, h *Harness) {
	const waiters, handOffs, limit = 50, 9, 25
	name := step.LockName(t)
	lease := step.Acquire(t, h.OpenLocker(t), name)
	var waiting []*step.Attempt
	for range waiters {
		waiting = append(waiting, step.StartAcquire(t, h.OpenLocker(t), name))
	}
	h.WaitQueued(t, name, waiters)
	var counts []int64
	for range handOffs {
		before := h.requests(t)
		step.Release(t, lease)
		next := step.FirstGranted(t, step.Limit, waiting)
		lease = waiting[next].Lease
		waiting = slices.Delete(waiting, next, next+1)
		h.WaitQueued(t, name, len(waiting))
		counts = append(counts, h.requests(t)-before)
	}
	slices.Sort(counts)
	if median := counts[handOffs/2]; median > limit {
		t.Errorf("a hand-off among %d waiters took %v requests, want at most %d", waiters, counts, limit)
	}
}
