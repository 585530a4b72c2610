package locker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/middleware"
)

type fakeTokenReader struct {
	fakeLocker
	current map[string]locker.Token // of the lock called so, and below "NAME 3" of that slot
	err     error
}

func (f *fakeTokenReader) CurrentToken(_ context.Context, name string, slot int) (locker.Token, error) {
	if slot != 0 {
		name = fmt.Sprint(name, " ", slot)
	}
	return f.current[name], f.err
}

func TestCurrentToken(t *testing.T) {
	inner := &fakeTokenReader{current: map[string]locker.Token{"held": 7, "held 3": 8}}
	l, err := locker.TokenBase(inner, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]locker.Token{"held": 1007, "free": 0} { // a base doesn't make a holder of nobody
		if got, err := locker.CurrentToken(t.Context(), l, name, 0); got != want || err != nil {
			t.Errorf("CurrentToken(%q) = %v, %v, want %v", name, got, err, want)
		}
	}
	if got, err := locker.CurrentToken(t.Context(), l, "held", 3); got != 1008 || err != nil {
		t.Errorf("CurrentToken of slot 3 = %v, %v, want 1008", got, err)
	}
	inner.err = errors.New("down")
	if _, err := locker.CurrentToken(t.Context(), l, "held", 0); !errors.Is(err, inner.err) {
		t.Errorf("CurrentToken of a service that is down = %v, want its error", err)
	}
	deaf, err := locker.TokenBase(&fakeLocker{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locker.CurrentToken(t.Context(), deaf, "held", 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("CurrentToken where nobody can tell = %v, want ErrUnsupported", err)
	}
}

// observer is a decorator that changes nothing, and shows what it is around.
type observer struct{ locker.Locker }

func (o observer) Unwrap() locker.Locker { return o.Locker }

func TestAsLocker(t *testing.T) {
	inner := new(fakeLocker)
	for what, l := range map[string]locker.Locker{
		"itself":            inner,
		"below a decorator": observer{inner},
		"below two":         observer{observer{inner}},
	} {
		if got, ok := locker.AsLocker[*fakeLocker](l); !ok || got != inner {
			t.Errorf("%s: AsLocker = %v, %v, want the locker underneath", what, got, ok)
		}
	}
	based, err := locker.TokenBase(inner, 1000)
	if err != nil {
		t.Fatal(err)
	}
	prefixed, err := middleware.Prefix(inner, "p/")
	if err != nil {
		t.Fatal(err)
	}
	for what, l := range map[string]locker.Locker{
		"a token base":                   based,
		"a prefix":                       prefixed,
		"a token base below an observer": observer{based},
		"no locker":                      nil,
	} {
		if got, ok := locker.AsLocker[*fakeLocker](l); ok {
			t.Errorf("%s: AsLocker = %v, want nothing: names and tokens mean something else there", what, got)
		}
	}
}

// CurrentToken finds its way through decorators, and stops at one that changes names or tokens.
func TestCurrentTokenThroughDecorators(t *testing.T) {
	inner := &fakeTokenReader{current: map[string]locker.Token{"held": 7, "p/held": 8}}
	based, err := locker.TokenBase(observer{inner}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	prefixed, err := middleware.Prefix(observer{inner}, "p/")
	if err != nil {
		t.Fatal(err)
	}
	for want, l := range map[locker.Token]locker.Locker{
		7: observer{inner}, 1007: observer{based}, 8: observer{prefixed},
	} {
		if got, err := locker.CurrentToken(t.Context(), l, "held", 0); got != want || err != nil {
			t.Errorf("CurrentToken = %v, %v, want %v", got, err, want)
		}
	}
}
