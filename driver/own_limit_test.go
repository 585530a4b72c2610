package driver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// asked is a driver that answers each call that belongs to no lease with an error.
type asked struct {
	mute
	answer func(ctx context.Context) error
}

func (d asked) CurrentToken(ctx context.Context, _ string, _ int) (locker.Token, error) {
	return 0, d.answer(ctx)
}

func (d asked) Inspect(ctx context.Context, _ string, _ locker.Look) (locker.Status, error) {
	return locker.Status{}, d.answer(ctx)
}

func (d asked) List(string, int) driver.Pages {
	return func(ctx context.Context) ([]locker.Status, bool, error) { return nil, false, d.answer(ctx) }
}

func (d asked) Break(ctx context.Context, _ string, _ locker.Token, _ locker.Breach) (locker.Effect, error) {
	return locker.Effect{}, d.answer(ctx)
}

// own are calls that have a time limit of the engine's. Each of them makes one call of the driver, which
// gets its error from answer, and returns the error.
func own(answer func(ctx context.Context) error) map[string]func(ctx context.Context, t *testing.T) error {
	calls := make(map[string]func(ctx context.Context, t *testing.T) error)
	for name, call := range map[string]func(ctx context.Context, l locker.Locker) error{
		"CurrentToken": func(ctx context.Context, l locker.Locker) error {
			_, err := locker.CurrentToken(ctx, l, "a", 0)
			return err
		},
		"Inspect": func(ctx context.Context, l locker.Locker) error {
			_, err := locker.Inspect(ctx, l, "a", locker.Look{})
			return err
		},
		"List": func(ctx context.Context, l locker.Locker) error {
			_, err := listAll(ctx, l)
			return err
		},
		"Break": func(ctx context.Context, l locker.Locker) error {
			_, err := locker.Break(ctx, l, "a", 1, locker.Breach{})
			return err
		},
	} {
		calls[name] = func(ctx context.Context, t *testing.T) error {
			l := driver.New(asked{answer: answer}, driver.Config{ObeysContext: obeysContext})
			t.Cleanup(func() { l.Close() })
			return call(ctx, l)
		}
	}
	calls["Renew"] = func(ctx context.Context, t *testing.T) error {
		f := &fake{renew: func(ctx context.Context, _ *fakeLock) (driver.Instant, error) { return 0, answer(ctx) }}
		lease := mustAcquire(t, openWith(t, f, driver.Config{}), "a")
		return lease.Renew(context.WithValue(ctx, byCaller{}, true))
	}
	return calls
}

// The end of a time limit of the engine's, or of one of the driver's that the driver reports as the end
// of a context, is not the end of the caller's context.
func TestOwnLimitsAreNotTheCallers(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(ctx context.Context) error
		took   time.Duration
		says   string
		as     error // matches as well; nil: nothing
	}{
		"the context's error":       {hang, 5 * time.Second, "", nil},
		"the context's error, more": {func(ctx context.Context) error { return fmt.Errorf("server 1: %w", hang(ctx)) }, 5 * time.Second, "server 1: ", nil},
		"another error, late":       {func(ctx context.Context) error { _ = hang(ctx); return errService }, 5 * time.Second, errService.Error(), errService},
		"the driver's own limit": {func(context.Context) error {
			time.Sleep(time.Second)
			return fmt.Errorf("dial: %w", context.DeadlineExceeded)
		}, time.Second, "dial: ", nil},
		"the driver's own context": {func(context.Context) error { return context.Canceled }, 0, "", nil},
	} {
		for what, call := range own(tc.answer) {
			t.Run(name+"/"+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					began := time.Now()
					err := call(t.Context(), t)
					if took := time.Since(began); took != tc.took {
						t.Errorf("it took %v, want %v", took, tc.took)
					}
					matches(t, what, err, locker.ErrNoAnswer)
					matchesNone(t, what, err, context.DeadlineExceeded, context.Canceled)
					if tc.as != nil {
						matches(t, what, err, tc.as)
					}
					if !strings.Contains(err.Error(), tc.says) {
						t.Errorf("%s = %v, want in it %q", what, err, tc.says)
					}
				})
			})
		}
	}
}

// The end of the caller's context matches its error, its cause and ErrNoAnswer.
func TestTheCallersLimitIsTheCallers(t *testing.T) {
	enough := errors.New("enough")
	for what, call := range own(hang) {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, enough)
				defer cancel()
				matches(t, what, call(ctx, t), locker.ErrNoAnswer, context.DeadlineExceeded, enough)
			})
		})
	}
}

// A refusal in time is the service's answer.
func TestARefusalIsAnAnswer(t *testing.T) {
	for what, call := range own(func(context.Context) error { return errService }) {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := call(t.Context(), t)
				matches(t, what, err, errService)
				matchesNone(t, what, err, locker.ErrNoAnswer)
			})
		})
	}
}

// Close has no context that could be over. A Release after it doesn't promise a removal that nobody makes.
func TestCloseThatIsNotConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{leaves: true, shut: hang, release: func(ctx context.Context, _ *fakeLock) error { return hang(ctx) }}
		l := open(t, f)
		lease := mustAcquire(t, l, "a")
		err := l.Close()
		matches(t, "Close", err, locker.ErrUnconfirmed, locker.ErrNoAnswer)
		matchesNone(t, "Close", err, context.DeadlineExceeded, context.Canceled)
		err = lease.Release(t.Context())
		matches(t, "Release after Close", err, locker.ErrUnconfirmed, locker.ErrNoAnswer)
		if strings.Contains(err.Error(), "goes on") {
			t.Errorf("Release after Close = %v, and nothing goes on", err)
		}
	})
}

// A driver may notice the caller's deadline a moment before the context ends.
func TestDeadlineThatADriverNoticesFirstIsTheCallers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		until := time.Now().Add(time.Second)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second+time.Millisecond, func() { cancel(context.DeadlineExceeded) })
		f := &fake{acquire: func(context.Context, *fakeLock) (driver.Grant, error) {
			time.Sleep(time.Second)
			return driver.Grant{}, fmt.Errorf("read: %w", context.DeadlineExceeded)
		}}
		_, err := open(t, f).Acquire(deadlined{ctx, until}, "a")
		matches(t, "Acquire", err, context.DeadlineExceeded)
	})
}

// deadlined has a deadline of its own, which doesn't end it.
type deadlined struct {
	context.Context
	deadline time.Time
}

func (d deadlined) Deadline() (time.Time, bool) { return d.deadline, true }
