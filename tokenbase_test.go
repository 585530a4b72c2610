package locker_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
)

func TestTokenBase(t *testing.T) {
	lease := newFakeLease()
	inner := &fakeLocker{lease: lease}
	l, err := locker.TokenBase(inner, 1000)
	if err != nil {
		t.Fatal(err)
	}
	got, err := l.Acquire(t.Context(), "a")
	if err != nil || got.Token() != 1007 {
		t.Fatalf("Acquire = %v, %v, want a lease with token 1007", got, err)
	}
	if below, ok := locker.As[*fakeLease](got); !ok || below != lease {
		t.Errorf("As doesn't find the lease underneath")
	}
	if err := got.Release(t.Context()); err != nil || lease.released != 1 {
		t.Errorf("Release = %v, and the lease underneath was released %d times, want once", err, lease.released)
	}
	inner.err = locker.ErrHeld
	if _, err := locker.TryAcquire(t.Context(), l, "a"); !errors.Is(err, locker.ErrHeld) {
		t.Errorf("TryAcquire = %v, want ErrHeld", err)
	}
	if err := l.Close(); err != nil || inner.closed != 1 {
		t.Errorf("Close = %v, and the locker underneath was closed %d times, want once", err, inner.closed)
	}
}

func TestTokenBaseOfAFaultyLocker(t *testing.T) {
	l, err := locker.TokenBase(faulty{&fakeLocker{}}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if lease, err := l.Acquire(t.Context(), "a"); lease != nil || err == nil {
		t.Errorf("Acquire = %v, %v, want an error: the Locker returns neither", lease, err)
	}
}

type faulty struct{ locker.Locker }

func (faulty) Acquire(context.Context, string, ...locker.Option) (locker.Lease, error) {
	return nil, nil
}

func TestTokenBaseRefuses(t *testing.T) {
	for _, base := range []locker.Token{-1, 1<<62 + 1, math.MaxInt64, math.MinInt64} {
		if _, err := locker.TokenBase(new(fakeLocker), base); !errors.Is(err, locker.ErrOption) {
			t.Errorf("TokenBase(%d) = %v, want ErrOption", base, err)
		}
	}
}

// A token beyond the int64 would be negative, and smaller than all before it.
func TestTokenBaseOverflow(t *testing.T) {
	const base = 1 << 62
	for token, want := range map[locker.Token]error{math.MaxInt64 - base: nil, math.MaxInt64 - base + 1: locker.ErrOption} {
		lease := newFakeLease()
		lease.token = token
		l, err := locker.TokenBase(&fakeLocker{lease: lease}, base)
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.Acquire(t.Context(), "a")
		if !errors.Is(err, want) || want == nil && got.Token() != math.MaxInt64 {
			t.Errorf("Acquire of a lease with token %d = %v, %v, want %v", token, got, err, want)
		}
		if released := lease.released > 0; released != (want != nil) {
			t.Errorf("a lease with token %d was released: %v, want %v", token, released, want != nil)
		}
	}
}

func TestOpenTokenBase(t *testing.T) {
	opened.lease = newFakeLease()
	l, err := locker.Open(t.Context(), "fake://host?a=b&token_base=4611686018427387904", locker.OrderFIFO)
	if err != nil {
		t.Fatal(err)
	}
	got, err := l.Acquire(t.Context(), "a")
	if err != nil || got.Token() != 1<<62+7 {
		t.Errorf("Acquire = %v, %v, want a lease with a token above the base", got, err)
	}
	for _, value := range []string{"-1", "", "x", "9223372036854775808", "4611686018427387905", "1.5", "1&token_base=2"} {
		_, err := locker.Open(t.Context(), "fake://host?token_base="+value)
		if !errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), "token") {
			t.Errorf("Open with the token base %q = %v, want ErrOption that names it", value, err)
		}
	}
	if _, err := locker.Open(t.Context(), "fake://down?token_base=-1"); !errors.Is(err, locker.ErrOption) {
		t.Errorf("Open of a service that is away with a bad base = %v, want ErrOption: it needs no service", err)
	}
}

// tokenReader is a locker whose service tells a token.
type tokenReader struct {
	*fakeLocker
	token locker.Token
}

func (r tokenReader) CurrentToken(context.Context, string, int) (locker.Token, error) {
	return r.token, nil
}

// A program without the base may hold the lock, with any token.
func TestTokenBaseOverflowOfACurrentToken(t *testing.T) {
	const base = 1 << 62
	for _, test := range []struct {
		token, want locker.Token
		err         error
	}{
		{0, 0, nil},
		{1, base + 1, nil},
		{math.MaxInt64 - base, math.MaxInt64, nil},
		{math.MaxInt64 - base + 1, 0, locker.ErrOption},
	} {
		l, err := locker.TokenBase(tokenReader{new(fakeLocker), test.token}, base)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := locker.CurrentToken(t.Context(), l, "a", 0); got != test.want || !errors.Is(err, test.err) {
			t.Errorf("CurrentToken of %d = %d, %v, want %d, %v", test.token, got, err, test.want, test.err)
		}
	}
}
