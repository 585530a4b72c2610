package locker_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fencedlock/locker"
)

type fakeSequencer struct {
	fakeLocker
	current map[string]locker.Token
	err     error
}

func (f *fakeSequencer) CurrentToken(_ context.Context, name string) (locker.Token, error) {
	return f.current[name], f.err
}

func TestCurrent(t *testing.T) {
	inner := &fakeSequencer{current: map[string]locker.Token{"held": 7}}
	l, err := locker.TokenBase(inner, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]locker.Token{"held": 1007, "free": 0} { // a base doesn't make a holder of nobody
		if got, err := locker.CurrentToken(t.Context(), l, name); got != want || err != nil {
			t.Errorf("Current(%q) = %v, %v, want %v", name, got, err, want)
		}
	}
	inner.err = errors.New("down")
	if _, err := locker.CurrentToken(t.Context(), l, "held"); !errors.Is(err, inner.err) {
		t.Errorf("CurrentToken of a service that is down = %v, want its error", err)
	}
	deaf, err := locker.TokenBase(&fakeLocker{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locker.CurrentToken(t.Context(), deaf, "held"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("CurrentToken where nobody can tell = %v, want ErrUnsupported", err)
	}
}
