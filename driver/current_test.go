package driver_test

import (
	"context"
	"errors"
	"testing"

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
	if got, err := locker.Current(t.Context(), l, "a"); got != lease.Token() || err != nil {
		t.Errorf("Current = %v, %v, want %v", got, err, lease.Token())
	}
	if _, err := locker.Current(t.Context(), l, ""); !errors.Is(err, locker.ErrName) {
		t.Errorf("Current of no name = %v, want ErrName", err)
	}
	cause := errors.New("enough")
	over, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := locker.Current(over, l, "a"); !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
		t.Errorf("Current with a context that is over = %v, want its error and cause", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := locker.Current(t.Context(), l, "a"); !errors.Is(err, locker.ErrClosed) {
		t.Errorf("Current of a locker that is closed = %v, want ErrClosed", err)
	}
}

type mute struct{ driver.Driver }

func (mute) Guarantees() locker.Guarantees { return locker.Guarantees{Backend: "mute"} }
func (mute) Close(context.Context) error   { return nil }

func TestCurrentOfADriverThatCantTell(t *testing.T) {
	l := driver.New(mute{}, driver.Config{Backend: "mute"})
	defer l.Close()
	if _, err := locker.Current(t.Context(), l, "a"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Current = %v, want ErrUnsupported", err)
	}
}
