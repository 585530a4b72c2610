package locker_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/middleware"
)

// fakeBreaker keeps the arguments of the last call.
type fakeBreaker struct {
	fakeLocker
	calls  int
	name   string
	token  locker.Token
	breach locker.Breach
}

func (f *fakeBreaker) Break(_ context.Context, name string, token locker.Token, b locker.Breach) (locker.Effect, error) {
	f.calls++
	f.name, f.token, f.breach = name, token, b
	return locker.Effect{Others: 1, Within: time.Second}, f.err
}

func TestBreakPassesOnWhatWasAsked(t *testing.T) {
	inner := &fakeBreaker{}
	want := locker.Breach{By: "bob", Reason: "hangs", At: time.UnixMilli(1).UTC(), AtOnce: true, WithOthers: true, Slot: 3}
	effect, err := locker.Break(t.Context(), observer{inner}, "a", 7, want)
	if err != nil || effect != (locker.Effect{Others: 1, Within: time.Second}) || inner.name != "a" || inner.token != 7 || inner.breach != want {
		t.Errorf("Break = %+v, %v; asked for %q, %v, %+v", effect, err, inner.name, inner.token, inner.breach)
	}
	inner.err = errors.New("down")
	if _, err := locker.Break(t.Context(), inner, "a", 7, want); !errors.Is(err, inner.err) {
		t.Errorf("Break of a service that is down = %v, want its error", err)
	}
}

func TestBreakThroughDecorators(t *testing.T) {
	inner := &fakeBreaker{}
	based, err := locker.TokenBase(inner, 1000)
	if err != nil {
		t.Fatal(err)
	}
	l, err := middleware.Prefix(observer{based}, "p/")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locker.Break(t.Context(), l, "a", 1007, locker.Breach{By: "bob", Slot: 3}); err != nil || inner.name != "p/a" || inner.token != 7 || inner.breach.By != "bob" || inner.breach.Slot != 3 {
		t.Errorf("Break = %v; asked for %q, %v, %+v, want p/a, 7, bob", err, inner.name, inner.token, inner.breach)
	}
	if _, err := locker.Break(t.Context(), l, "a", math.MaxInt64, locker.Breach{}); err != nil || inner.token != math.MaxInt64-1000 {
		t.Errorf("Break = %v; asked for %v", err, inner.token)
	}
	calls := inner.calls
	for _, tc := range []struct {
		name  string
		token locker.Token
		b     locker.Breach
		want  error
	}{
		{"a", 1000, locker.Breach{}, locker.ErrNotHolder},
		{"a", 1, locker.Breach{}, locker.ErrNotHolder},
		{"a", 0, locker.Breach{}, locker.ErrOption},
		{"a", -7, locker.Breach{}, locker.ErrOption},
		{"a", 1001, locker.Breach{Reason: "\n"}, locker.ErrOption},
		{"", 1001, locker.Breach{}, locker.ErrName},
		{strings.Repeat("n", 199), 1001, locker.Breach{}, locker.ErrName},
	} {
		_, err := locker.Break(t.Context(), l, tc.name, tc.token, tc.b)
		var e *locker.Error
		if !errors.Is(err, tc.want) || !errors.As(err, &e) || e.Op != "break" {
			t.Errorf("Break(%q, %v, %+v) = %v, want %v", tc.name, tc.token, tc.b, err, tc.want)
		}
	}
	if inner.calls != calls {
		t.Errorf("%d calls have got through", inner.calls-calls)
	}
}

func TestBreakWhereNobodyCan(t *testing.T) {
	l := &fakeLocker{guarantees: locker.Guarantees{Backend: "fake"}}
	based, err := locker.TokenBase(l, 1)
	if err != nil {
		t.Fatal(err)
	}
	prefixed, err := middleware.Prefix(l, "p/")
	if err != nil {
		t.Fatal(err)
	}
	for what, l := range map[string]locker.Locker{"a Locker": l, "a token base": based, "a prefix": prefixed} {
		_, err := locker.Break(t.Context(), l, "a", 7, locker.Breach{})
		var e *locker.Error
		if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, locker.ErrNoBreaker) || !errors.As(err, &e) || e.Op != "break" || e.Backend != "fake" {
			t.Errorf("%s: Break = %v, want ErrNoBreaker", what, err)
		}
	}
}

func TestResolveBreach(t *testing.T) {
	before := time.Now().Add(-time.Millisecond)
	b, err := locker.ResolveBreach("a", 1, locker.Breach{})
	if err != nil || b.By != locker.DefaultHolder() || b.At.Before(before) || b.At.After(time.Now()) || !b.At.Equal(time.UnixMilli(b.At.UnixMilli())) {
		t.Errorf("ResolveBreach of nothing = %+v, %v", b, err)
	}
	full := locker.Breach{By: strings.Repeat("b", locker.MaxHolder), Reason: strings.Repeat("r", locker.MaxReason), At: time.UnixMilli(0).UTC(), AtOnce: true, WithOthers: true}
	if got, err := locker.ResolveBreach("a", 1, full); got != full || err != nil {
		t.Errorf("ResolveBreach = %+v, %v", got, err)
	}
	for what, b := range map[string]locker.Breach{
		"bytes, not 201":       {By: full.By + "b"},
		"bytes, not 501":       {Reason: full.Reason + "r"},
		"control character":    {By: "a\x1bb"},
		"not UTF-8":            {Reason: "\xff"},
		"slot 1001: want from": {Slot: locker.MaxPermits + 1},
		"slot -2: want from":   {Slot: locker.LineSlot - 1},
		"from 1970 to 9999":    {At: time.UnixMilli(-1)},
		"want a time from 19":  {At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		if _, err := locker.ResolveBreach("a", 1, b); !errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), what) || len(err.Error()) > 600 {
			t.Errorf("ResolveBreach(%+v) = %v, want ErrOption, and %q", b, err, what)
		}
	}
}

func TestBreachIsAnError(t *testing.T) {
	b := &locker.Breach{By: "bob@ops-1", Reason: "hangs since 17:50", At: time.Unix(1795370723, 0).In(time.FixedZone("", 7200))}
	err := fmt.Errorf("%w: %w", locker.ErrLost, b)
	var found *locker.Breach
	if !errors.Is(err, locker.ErrBroken) || !errors.As(err, &found) || found != b || locker.LossOf(err) != "broken" {
		t.Errorf("%v: LossOf = %q, the Breach is %+v", err, locker.LossOf(err), found)
	}
	if want := "lease is lost: taken away by bob@ops-1 at 2026-11-22T18:05:23Z: hangs since 17:50"; err.Error() != want {
		t.Errorf("the error says %q, want %q", err, want)
	}
	if got := new(locker.Breach).Error(); got != "taken away by an operator" {
		t.Errorf("a Breach of nobody says %q", got)
	}
	for slot, want := range map[int]string{3: "slot 3: taken away by bob", locker.LineSlot: "the line: taken away by bob"} {
		if got := (&locker.Breach{By: "bob", Slot: slot}).Error(); got != want {
			t.Errorf("a Breach of slot %d says %q, want %q", slot, got, want)
		}
	}
	if errors.Is(b, locker.ErrLost) || locker.LossOf(b) != "" {
		t.Errorf("a Breach alone matches ErrLost")
	}
}
