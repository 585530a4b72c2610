package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// What a caller sees of a service that doesn't answer.
var silenceCases = []Case{
	{ID: "B11", Name: "hung-service-does-not-hang-the-caller", Run: hungService,
		Hooks: []Hook{HookPause},
		Why: "a service that accepts requests and never answers is the usual failure; a caller " +
			"with a time limit must return in time, and one without it must learn of the failure"},
	{ID: "B11.1", Name: "silent-service-holds-nobody-up", Run: silentService,
		Hooks: []Hook{HookLinked},
		Why: "a caller that gives up must have its goroutine back at once, and not when a time " +
			"limit of the client library is over; a release has a time limit of its own"},
}

func hungService(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	step.WantFree(t, l, name) // and connects
	resume := h.PauseService(t)
	for _, opts := range [][]locker.Option{{locker.NoWait()}, nil} {
		ctx, cancel := context.WithTimeout(t.Context(), h.short())
		before := time.Now()
		_, err := step.AcquireContext(t, ctx, l, name, h.ttl(opts...)...)
		cancel()
		if took := time.Since(before); took > h.short()+h.Slack {
			t.Errorf("Acquire with a limit of %v returned after %v", h.short(), took)
		}
		if err == nil || errors.Is(err, locker.ErrHeld) {
			t.Errorf("Acquire on a service that hangs = %v, want an error that is not ErrHeld", err)
		}
	}

	// Nothing is known of the lock, so the backend ends a call without a deadline itself.
	patient := step.StartAcquire(t, l, name, h.ttl()...)
	err := patient.Refused(t, firstAnswer+h.Slack)
	if errors.Is(err, locker.ErrHeld) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		t.Errorf("Acquire without a deadline, on a service that hangs = %v, want an error that is not ErrHeld, nor a context's: the caller's isn't over", err)
	}
	resume()
	step.FreeWithin(t, h.RemovalLimit(), other, name)
}

// firstAnswer is for how long a call of Acquire without a deadline may wait until it knows anything of
// the lock.
const firstAnswer = 15 * time.Second

// goneAtOnce is the longest time from the end of a call's context to its return. It is far below
// the time limits that client libraries have, and the fastest of silentTries calls counts, because
// a busy machine is late now and then.
const (
	goneAtOnce  = 500 * time.Millisecond
	silentTries = 3
)

// silentService cuts the network while calls wait for an answer. Whether the backend declares that
// its driver obeys contexts can't be seen. It makes no difference: without the declaration the
// engine lets the caller go. The acquisitions have the default TTL, because drivers derive limits
// of their own from the TTL, and a short one would hide that they ignore the context.
func silentService(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	var held []locker.Lease
	for range silentTries {
		held = append(held, step.Acquire(t, l, step.LockName(t), h.ttl()...)) // and connects
	}
	link.Cut()
	defer link.Heal() // Close has something to remove
	releaseInSilence(t, held)
	fastest := step.Limit
	for i := range silentTries {
		var opts []locker.Option
		if i%2 == 1 {
			opts = append(opts, locker.NoWait())
		}
		a := step.StartAcquire(t, l, step.LockName(t), opts...)
		step.Pass(t, h.Settle) // the call must wait for an answer
		if a.Returned(0) {     // the driver knows by now that nobody answers
			continue
		}
		ended := time.Now()
		a.Cancel(nil)
		a.Refused(t, step.Limit, context.Canceled)
		fastest = min(fastest, time.Since(ended))
	}
	if fastest > goneAtOnce && fastest < step.Limit {
		t.Errorf("Acquire returned %v after it was cancelled, while the service was silent; "+
			"want it at once", fastest)
	}
}

// releaseInSilence releases leases while the service is silent. That takes as long as the TTL, but
// no more than five seconds.
func releaseInSilence(t T, held []locker.Lease) {
	t.Helper()
	late := make([]time.Duration, len(held))
	releases := make([]func() error, len(held))
	for i, lease := range held {
		limit := 5 * time.Second
		if deadline := lease.Deadline(); !deadline.IsZero() {
			limit = min(limit, time.Until(deadline)*11/10) // the deadline is a little less than a TTL away
		}
		releases[i] = func() error {
			began := time.Now()
			err := lease.Release(t.Context())
			late[i] = time.Since(began) - limit
			if err != nil && !errors.Is(err, locker.ErrUnconfirmed) && !errors.Is(err, locker.ErrLost) {
				return fmt.Errorf("a Release during the silence = %w, want ErrUnconfirmed, or ErrLost", err)
			}
			return nil
		}
	}
	step.Race(t, releases...)
	if fastest := slices.Min(late); fastest > goneAtOnce {
		t.Errorf("Release returned %v after its time was up, while the service was silent", fastest)
	}
}
