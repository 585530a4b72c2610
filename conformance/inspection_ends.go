package conformance

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// looks are Inspect and List as functions that return the first error.
var looks = map[string]func(ctx context.Context, l locker.Locker, name string, waiters int) error{
	"Inspect": func(ctx context.Context, l locker.Locker, name string, waiters int) error {
		_, err := locker.Inspect(ctx, l, name, locker.Look{Waiters: waiters})
		return err
	},
	"List": func(ctx context.Context, l locker.Locker, _ string, waiters int) error {
		for _, err := range locker.List(ctx, l, "", waiters) {
			if err != nil {
				return err
			}
		}
		return nil
	},
}

// questions are looks, and what else is asked about one lock: the current token, and a break of the
// lease with a token. What the backend doesn't have is left out.
func questions(
	t T, h *Harness, l locker.Locker, name string, token locker.Token,
) map[string]func(ctx context.Context, l locker.Locker, name string, waiters int) error {
	t.Helper()
	all := make(map[string]func(ctx context.Context, l locker.Locker, name string, waiters int) error)
	if locker.InspectionHolder.Check(h.guarantees) == nil {
		maps.Copy(all, looks)
	}
	if _, err := locker.CurrentToken(t.Context(), l, name, 0); !errors.Is(err, errors.ErrUnsupported) {
		all["CurrentToken"] = func(ctx context.Context, l locker.Locker, name string, _ int) error {
			_, err := locker.CurrentToken(ctx, l, name, 0)
			return err
		}
	}
	if locker.BreakSeenAtRenewal.Check(h.guarantees) == nil {
		all["Break"] = func(ctx context.Context, l locker.Locker, name string, _ int) error {
			_, err := locker.Break(ctx, l, name, token, someBreach(false))
			return err
		}
	}
	return all
}

func inspectionEnds(t T, h *Harness) {
	looker, name := h.OpenLocker(t), step.LockName(t)
	wantUnheld(t, looker, name, "before all") // and connects
	before := h.requestsAtRest(t)
	refusedLooks(t, h, looker, name)
	if n := h.requests(t) - before; n != 0 {
		t.Errorf("looks that are refused have cost the service %d requests, want none", n)
	}
	l := h.OpenLocker(t)
	lease, second := step.Acquire(t, l, name), step.Acquire(t, l, name+"2")
	for _, err := range locker.List(t.Context(), looker, "", 0) {
		if err != nil {
			t.Errorf("List = %v", err)
		}
		break // a list that is left has nothing to free
	}
	step.Close(t, looker)
	for what, call := range looks {
		if err := call(t.Context(), looker, name, 0); !errors.Is(err, locker.ErrClosed) {
			t.Errorf("%s of a Locker that is closed = %v, want ErrClosed", what, err)
		}
	}
	step.Release(t, lease)
	step.Release(t, second)
}

// refusedLooks are looks of callers that have gone, or that ask for nonsense.
func refusedLooks(t T, h *Harness, looker locker.Locker, name string) {
	t.Helper()
	cause := errors.New("nobody looks any more")
	over, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for what, call := range looks {
		err := step.MustReturn(t, h.Slack, what, func() error { return call(over, looker, name, 1) })
		if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
			t.Errorf("%s with a context that is over = %v, want its error and cause", what, err)
		}
		if err := call(t.Context(), looker, name, -1); !errors.Is(err, locker.ErrOption) {
			t.Errorf("%s with -1 waiters = %v, want ErrOption", what, err)
		}
	}
	for _, bad := range []string{"", "a\n", strings.Repeat("x", locker.MaxName+1)} {
		if _, err := locker.Inspect(t.Context(), looker, bad, locker.Look{}); !errors.Is(err, locker.ErrName) {
			t.Errorf("Inspect(%q) = %v, want ErrName", bad, err)
		}
		if bad == "" { // the prefix of all names
			continue
		}
		for _, err := range locker.List(t.Context(), looker, bad, 0) {
			if !errors.Is(err, locker.ErrName) {
				t.Errorf("List(%q) = %v, want ErrName", bad, err)
			}
		}
	}
}

// lookLimit is the time limit of a look, whatever its context.
const lookLimit = 5 * time.Second

func inspectionOfSilence(t T, h *Harness) {
	looker, name := h.OpenLocker(t), step.LockName(t)
	token := step.WantFree(t, h.OpenLocker(t), step.LockName(t))
	wantUnheld(t, looker, name, "before the silence") // and connects
	calls := questions(t, h, looker, name, token)
	resume := h.PauseService(t)
	for what, call := range calls {
		err := lookFor(t, h, looker, name, what, call)
		if !errors.Is(err, context.DeadlineExceeded) { // it may have joined an attempt to connect that has failed
			err = lookFor(t, h, looker, name, what, call)
		}
		var e *locker.Error
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) {
			t.Errorf("%s of a silent service = %v, want its context's error", what, err)
		}
		before := time.Now()
		err = step.MustReturn(t, step.Limit, what, func() error { return call(t.Context(), looker, name, 1) })
		took := time.Since(before)
		if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			t.Errorf("%s of a silent service = %v, want an error that isn't the caller's", what, err)
		}
		if took >= lookLimit && !errors.Is(err, locker.ErrNoAnswer) { // else the client gave up before
			t.Errorf("%s of a silent service = %v after %v, want ErrNoAnswer", what, err, took)
		}
		if took > lookLimit+time.Second+h.Slack {
			t.Errorf("%s of a silent service took %v, want about %v", what, took, lookLimit)
		}
	}
	resume()
	step.Eventually(t, h.RemovalLimit(), func() error {
		_, err := locker.Inspect(t.Context(), looker, name, locker.Look{})
		return err
	})
}

// lookFor returns the error of a look whose context ends soon.
func lookFor(
	t T, h *Harness, looker locker.Locker, name, what string,
	call func(context.Context, locker.Locker, string, int) error,
) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), h.short())
	defer cancel()
	return step.MustReturn(t, h.short()+h.Slack+time.Second, what, func() error { return call(ctx, looker, name, 1) })
}

// questionsOfFailed asks about a lock that is held when the service refuses all requests.
func questionsOfFailed(t T, h *Harness) {
	l, looker, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	step.WantFree(t, looker, name) // and connects
	lease := step.Acquire(t, l, name, h.longTTL()...)
	calls := questions(t, h, looker, name, lease.Token())
	if len(calls) == 0 {
		t.Logf("there is nothing to ask")
		return
	}
	up := h.TakeDown(t)
	for what, call := range calls {
		err := step.MustReturn(t, lookLimit+time.Second+h.Slack, what, func() error { return call(t.Context(), looker, name, 1) })
		if err == nil {
			t.Errorf("%s of a service that fails = nil, want its failure", what)
		}
		for _, answer := range []error{locker.ErrNotHolder, locker.ErrHeld, locker.ErrLost} {
			if errors.Is(err, answer) {
				t.Errorf("%s of a service that fails = %v, which matches %q; only the service may say that", what, err, answer)
			}
		}
	}
	up()
	_ = step.MustReturn(t, step.Limit, "Release", func() error { return lease.Release(t.Context()) }) // the service may have lost it
	step.FreeWithin(t, h.RemovalLimit()+h.Recovery, looker, step.LockName(t))                         // the next case needs the service
}
