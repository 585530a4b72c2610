package locker_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/middleware"
)

type fakeTokenReader struct {
	fakeLocker
	current map[string]locker.Token
	err     error
}

func (f *fakeTokenReader) CurrentToken(_ context.Context, name string) (locker.Token, error) {
	return f.current[name], f.err
}

func TestCurrentToken(t *testing.T) {
	inner := &fakeTokenReader{current: map[string]locker.Token{"held": 7}}
	l, err := locker.TokenBase(inner, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]locker.Token{"held": 1007, "free": 0} { // a base doesn't make a holder of nobody
		if got, err := locker.CurrentToken(t.Context(), l, name); got != want || err != nil {
			t.Errorf("CurrentToken(%q) = %v, %v, want %v", name, got, err, want)
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
		if got, err := locker.CurrentToken(t.Context(), l, "held"); got != want || err != nil {
			t.Errorf("CurrentToken = %v, %v, want %v", got, err, want)
		}
	}
}
