package kit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

func TestOverdue(t *testing.T) {
	for _, err := range []error{nil, errService, kit.ErrNotSent, locker.ErrNoAnswer} {
		if got := kit.Overdue(err); got != err { //nolint:errorlint // the same one
			t.Errorf("Overdue(%v) = %v, want it as it was", err, got)
		}
	}
	for _, over := range []error{context.Canceled, context.DeadlineExceeded} {
		err := kit.Overdue(fmt.Errorf("dial: %w", over))
		matches(t, "Overdue", err, locker.ErrNoAnswer)
		matchesNone(t, "Overdue", err, over, kit.ErrNotSent)
		err = kit.Overdue(errors.Join(kit.ErrNotSent, over))
		matches(t, "Overdue of what was not sent", err, locker.ErrNoAnswer, kit.ErrNotSent)
		matchesNone(t, "Overdue of what was not sent", err, over)
	}
}

func TestOpening(t *testing.T) {
	hinted := errors.New("the hint")
	hint := func(err error) error { return fmt.Errorf("%w; %w", err, hinted) }
	for _, tc := range []struct {
		name           string
		caller         time.Duration // until it leaves; 0: it stays
		open           func(context.Context) error
		match, exclude []error
		took           time.Duration
	}{
		{"success", 0, func(context.Context) error { return nil }, nil, nil, 0},
		{"a refusal", 0, func(context.Context) error { return errService }, []error{errService, hinted}, []error{locker.ErrNoAnswer}, 0},
		{"silence", 0, hang, []error{locker.ErrNoAnswer, hinted}, []error{context.DeadlineExceeded, context.Canceled}, time.Minute},
		{"the caller leaves", time.Second, hang, []error{context.Canceled, errCause, locker.ErrNoAnswer}, []error{hinted}, time.Second},
		{"the caller has left, and it succeeds", time.Second, func(ctx context.Context) error {
			_ = hang(ctx)
			return nil
		}, nil, nil, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tc.caller > 0 {
					time.AfterFunc(tc.caller, func() { cancel(errCause) })
				}
				began := time.Now()
				err := kit.Opening(ctx, time.Minute, tc.open, hint)
				if (err == nil) != (tc.match == nil) {
					t.Errorf("Opening = %v, want %v", err, tc.match)
				}
				if d := time.Since(began); d != tc.took {
					t.Errorf("it took %v, want %v", d, tc.took)
				}
				matches(t, "Opening", err, tc.match...)
				matchesNone(t, "Opening", err, tc.exclude...)
			})
		})
	}
}

// A connection with the caller's deadline may notice it before the context does.
func TestTheCallersDeadlineAtTheConnection(t *testing.T) {
	ctx, cancel := context.WithDeadlineCause(t.Context(), time.Now().Add(50*time.Millisecond), errCause)
	defer cancel()
	early := &behind{ctx}
	err := kit.Opening(early, time.Minute, func(context.Context) error { return errService }, nil)
	matches(t, "Opening", err, errService, errCause, context.DeadlineExceeded)
}

// A context of the caller's own kind may have a deadline, and never end.
func TestADeadlineWithoutAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		matches(t, "GaveUp", kit.GaveUp(&behind{context.WithoutCancel(t.Context())}, errService), errService)
	})
}

// behind is a context whose deadline is over before it ends.
type behind struct{ context.Context }

func (b *behind) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

func TestOpenError(t *testing.T) {
	if err := kit.OpenError("etcd", nil); err != nil {
		t.Errorf("OpenError(nil) = %v", err)
	}
	err := kit.OpenError("etcd", errService)
	matches(t, "OpenError", err, errService)
	var e *locker.Error
	if !errors.As(err, &e) || e.Op != "open" || e.Backend != "etcd" {
		t.Errorf("OpenError = %#v, want one of the operation open on etcd", err)
	}
}
