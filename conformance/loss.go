package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

var lossCases = []Case{
	{ID: "F47", Name: "done-closes-on-a-dead-network", Run: deadNetwork, Needs: locker.RequireTTL,
		Hooks: []Hook{HookLinked},
		Why:   "a renewal that gets no answer must not delay the report that the lease is lost"},
	{ID: "F47.1", Name: "done-closes-when-the-service-hangs", Run: hungRenewal,
		Needs: locker.RequireTTL, Hooks: []Hook{HookPause},
		Why: "a service that has stopped can't report the end of a lease; the holder's own clock " +
			"must"},
	{ID: "F48", Name: "loss-is-known-before-the-next-grant", Run: lossBeforeGrant,
		Needs: locker.RequireTTL, Hooks: []Hook{HookPause},
		Why: "when the service is back, the next caller gets the lock at once; a holder that " +
			"still believes in its lease then is a second holder"},
	{ID: "F48.1", Name: "deadline-counts-from-the-request", Run: deadlineFromRequest,
		Needs: locker.RequireTTL, Hooks: []Hook{HookLinked},
		Why: "when another gets the lock, the holder's lease must be over: it isn't where the holder " +
			"counts from the reply, or where the service ends the lease before the TTL is over"},
	{ID: "F48.2", Name: "deadline-after-a-wait-counts-from-the-refresh", Run: deadlineAfterWait,
		Needs: locker.RequireTTL, Hooks: []Hook{HookLinked},
		Why: "the lease of a waiter rests on the last refresh of its place; a holder that counts " +
			"from the grant believes in its lease when another has the lock"},
	{ID: "F48.3", Name: "late-reply-shortens-the-lease", Run: lateReplyShortens,
		Needs: locker.RequireTTL, Hooks: []Hook{HookLinked},
		Why: "where the service keeps a lock for longer than the TTL, such as in whole seconds, a " +
			"holder that counts from the reply is found out only now and then"},
	{ID: "F48.4", Name: "each-lease-counts-from-its-own-request", Run: batchInRequests,
		Needs: locker.RequireTTL, Hooks: []Hook{HookLinked},
		Why: "where renewals of many leases take several requests, a holder whose lease was renewed " +
			"by the first of them must not count from the last"},
	{ID: "F49", Name: "release-is-no-loss", Run: releaseIsNoLoss,
		Why: "a holder that watches Done must be able to tell a release from a loss"},
	{ID: "F50", Name: "lost-lease-says-so-at-once", Run: lostSaysSo,
		Why: "a late look must show the same as an early look: Done closed, and ErrLost as the " +
			"cause of the context"},
	{ID: "F51", Name: "do-reports-the-loss", Run: doReportsLoss,
		Why: "work that succeeded while another holder had the lock is no success, and the work's " +
			"own error must not hide that"},
	{ID: "F52", Name: "broken-connections-poison-no-pool", Run: severed, Hooks: []Hook{HookLinked},
		Why: "after a failure of the network the next acquisition must work, not the first after " +
			"all broken connections have been tried"},
}

func deadNetwork(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	name := step.LockName(t)
	lease := step.Acquire(t, l, name, h.ttl()...)
	step.Pass(t, h.TTL) // the lease must have been renewed
	link.Cut()
	noticed(t, h, lease)
}

func hungRenewal(t T, h *Harness) {
	l, name := h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name, h.ttl()...)
	step.Pass(t, h.TTL) // the lease must have been renewed
	h.PauseService(t)
	noticed(t, h, lease)
}

// noticed fails the case unless the lease, which can't be renewed any more, ends at its deadline:
// not later, and not much earlier, because one failed renewal is no loss.
func noticed(t T, h *Harness, lease locker.Lease) {
	t.Helper()
	// It takes time to make the service fail: the lease may have ended by then.
	if err := lease.Err(); err != nil && time.Now().Before(lease.Deadline()) {
		t.Fatalf("Err = %v, want nil: the deadline is in the future", err)
	}
	step.LostWithin(t, h.TTL+h.Slack, lease)
	deadline := lease.Deadline()
	if late := time.Since(deadline); late > h.Slack {
		t.Errorf("Done was closed %v after the deadline", late)
	}
	if early := time.Until(deadline); early > h.TTL/10 {
		t.Errorf("Done was closed %v before the deadline", early)
	}
}

func lossBeforeGrant(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	step.WantFree(t, other, name) // and connects
	lease := step.Acquire(t, l, name, h.ttl()...)
	resume := h.PauseService(t)
	next := step.StartAcquire(t, other, name)
	step.Pass(t, h.TTL*3/2) // the service is stopped for longer than the TTL
	if err := lease.Err(); !errors.Is(err, locker.ErrLost) {
		t.Errorf("Err = %v, want ErrLost: the service was silent for longer than the TTL", err)
	}
	if !step.IsClosed(lease.Done()) {
		t.Errorf("Done is open, and the service was silent for longer than the TTL")
	}
	resume()
	if !next.Returned(h.RemovalLimit()) {
		t.Fatalf("Acquire has not returned %v after the service was back", h.RemovalLimit())
	}
	if next.Err != nil { // its request had no answer for too long
		t.Logf("Acquire while the service was stopped = %v", next.Err)
		step.FreeWithin(t, h.RemovalLimit(), other, name)
		return
	}
	step.Release(t, next.Lease)
}

func releaseIsNoLoss(t T, h *Harness) {
	l, name := h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name)
	ctx, cancel := locker.WithLease(t.Context(), lease)
	defer cancel()
	if err := lease.Err(); err != nil || step.IsClosed(lease.Done()) || ctx.Err() != nil {
		t.Errorf("while it is held: Err = %v, Done closed: %v, its context's Err = %v", err, step.IsClosed(lease.Done()), ctx.Err())
	}
	step.Release(t, lease)
	err := step.EndedWithin(t, h.Slack, lease)
	if !errors.Is(err, locker.ErrReleased) || errors.Is(err, locker.ErrLost) {
		t.Errorf("after Release, Err = %v, want ErrReleased alone", err)
	}
	if !step.WaitClosed(ctx.Done(), h.Slack) {
		t.Fatalf("the lease's context is not done %v after Release", h.Slack)
	}
	if cause := context.Cause(ctx); !errors.Is(cause, locker.ErrReleased) || errors.Is(cause, locker.ErrLost) {
		t.Errorf("the cause of the lease's context = %v, want ErrReleased alone", cause)
	}
}

func lostSaysSo(t T, h *Harness) {
	l, name := h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithMaxHold(h.short()))
	before, cancel := locker.WithLease(t.Context(), lease)
	defer cancel()
	step.LostWithin(t, h.short()+h.Slack, lease)
	if !step.IsClosed(lease.Done()) {
		t.Errorf("Done of a lost lease is open")
	}
	after, cancel := locker.WithLease(t.Context(), lease)
	defer cancel()
	for when, ctx := range map[string]context.Context{"before": before, "after": after} {
		if !step.WaitClosed(ctx.Done(), h.Slack) {
			t.Errorf("the context made %s the loss is not done after %v", when, h.Slack)
		}
		if cause := context.Cause(ctx); !errors.Is(cause, locker.ErrLost) {
			t.Errorf("the cause of the context made %s the loss = %v, want ErrLost", when, cause)
		}
	}
}

func doReportsLoss(t T, h *Harness) {
	l, name := h.OpenLocker(t), step.LockName(t)
	failed := errors.New("the work failed")
	for _, outcome := range []error{nil, failed} {
		var cause error
		err := step.MustReturn(t, step.Limit, "Do", func() error {
			return locker.Do(t.Context(), l, name, func(ctx context.Context, _ locker.Lease) error {
				if !step.WaitClosed(ctx.Done(), step.Limit/2) {
					return fmt.Errorf("the context of Do has not ended")
				}
				cause = context.Cause(ctx)
				return outcome
			}, locker.WithMaxHold(h.short()))
		})
		if !errors.Is(err, locker.ErrLost) {
			t.Errorf("Do whose lease was lost = %v, want ErrLost", err)
		}
		if outcome != nil && !errors.Is(err, outcome) {
			t.Errorf("Do = %v, want the function's error as well", err)
		}
		if !errors.Is(cause, locker.ErrLost) {
			t.Errorf("the cause of the function's context = %v, want ErrLost", cause)
		}
	}
}

func severed(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	other, name := h.OpenLocker(t), step.LockName(t)
	for range 5 {
		step.WantFree(t, l, name)
		link.Sever()
		ctx, cancel := context.WithTimeout(t.Context(), h.Slack)
		lease, err := step.AcquireContext(t, ctx, l, name)
		cancel()
		if err != nil {
			t.Fatalf("the first Acquire after the connections broke = %v, want a lease", err)
		}
		step.Release(t, lease)
		step.WantFree(t, other, name)
	}
}
