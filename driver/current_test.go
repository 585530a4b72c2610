package driver_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/membackend"
)

func TestCurrent(t *testing.T) {
	l := membackend.New()
	lease, err := l.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := locker.CurrentToken(t.Context(), l, "a", 0); got != lease.Token() || err != nil {
		t.Errorf("CurrentToken = %v, %v, want %v", got, err, lease.Token())
	}
	if _, err := locker.CurrentToken(t.Context(), l, "", 0); !errors.Is(err, locker.ErrName) {
		t.Errorf("CurrentToken of no name = %v, want ErrName", err)
	}
	cause := errors.New("enough")
	over, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := locker.CurrentToken(over, l, "a", 0); !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
		t.Errorf("CurrentToken with a context that is over = %v, want its error and cause", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := locker.CurrentToken(t.Context(), l, "a", 0); !errors.Is(err, locker.ErrClosed) {
		t.Errorf("CurrentToken of a locker that is closed = %v, want ErrClosed", err)
	}
}

type mute struct{ driver.Driver }

func (mute) Guarantees() locker.Guarantees { return locker.Guarantees{Backend: "mute"} }
func (mute) Close(context.Context) error   { return nil }

func TestCurrentOfADriverThatCantTell(t *testing.T) {
	l := driver.New(mute{}, driver.Config{})
	defer l.Close()
	if _, err := locker.CurrentToken(t.Context(), l, "a", 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("CurrentToken = %v, want ErrUnsupported", err)
	}
}

// silent is a driver whose service doesn't answer.
type silent struct{ mute }

func (silent) CurrentToken(ctx context.Context, _ string, _ int) (locker.Token, error) {
	<-ctx.Done()
	return 0, context.Cause(ctx)
}

// The engine's time limit is not reported as the caller's. The caller's own is reported with its
// cause.
func TestCurrentOfASilentService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := driver.New(silent{}, driver.Config{})
		defer l.Close()
		if _, err := locker.CurrentToken(t.Context(), l, "a", 0); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("CurrentToken = %v, want an error that isn't the caller's deadline", err)
		}
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, enough)
		defer cancel()
		if _, err := locker.CurrentToken(ctx, l, "a", 0); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, enough) {
			t.Errorf("CurrentToken that ran out of time = %v, want DeadlineExceeded and the cause", err)
		}
	})
}

// telling is a driver whose service knows its tokens.
type telling struct {
	mute
	token func(ctx context.Context) (locker.Token, error)
}

func (d telling) CurrentToken(ctx context.Context, _ string, _ int) (locker.Token, error) {
	return d.token(ctx)
}

// The service's error is the caller's to see. The context of the request ends with it.
func TestCurrentOfAServiceThatFails(t *testing.T) {
	var request context.Context
	l := driver.New(telling{token: func(ctx context.Context) (locker.Token, error) {
		request = ctx
		return 0, errService
	}}, driver.Config{})
	defer l.Close()
	_, err := locker.CurrentToken(t.Context(), l, "a", 0)
	matches(t, "CurrentToken", err, errService)
	matches(t, "Err of the request's context", request.Err(), context.Canceled)
}
