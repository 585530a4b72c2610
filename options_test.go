package locker_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

func TestValidName(t *testing.T) {
	for _, name := range []string{
		"a", "a/b", "A", "x{y}", "%", "..", "/", " ", "näme", "日本語", "\u2028", "\uFFFD", strings.Repeat("n", locker.MaxName),
	} {
		if err := locker.ValidName(name); err != nil {
			t.Errorf("ValidName(%q) = %v, want nil", name, err)
		}
	}
	for _, name := range []string{
		"", "a\x00", "\n", "tab\t", "\x7f", "\u0085", "\xff", "a\xc3", strings.Repeat("n", locker.MaxName+1), strings.Repeat("ä", 101),
	} {
		if err := locker.ValidName(name); !errors.Is(err, locker.ErrName) {
			t.Errorf("ValidName(%q) = %v, want ErrName", name, err)
		}
	}
}

func FuzzValidName(f *testing.F) {
	for _, s := range []string{"", "a", "a\x00b", "\xff", strings.Repeat("x", 201), "\u0085"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		control := false
		for _, r := range name {
			control = control || unicode.IsControl(r)
		}
		want := len(name) >= 1 && len(name) <= 200 && utf8.ValidString(name) && !control
		if err := locker.ValidName(name); (err == nil) != want {
			t.Errorf("ValidName(%q) = %v, want valid = %v", name, err, want)
		}
	})
}

func TestResolve(t *testing.T) {
	r, err := locker.Resolve("name", locker.WithTTL(time.Minute), locker.NoWait(), locker.WithoutRenewal(), locker.WithMaxHold(time.Hour), locker.WithMinHold(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if r.MinHold != time.Hour {
		t.Errorf("MinHold = %v", r.MinHold)
	}
	if r.Name != "name" || r.TTL != time.Minute || !r.NoWait || !r.NoRenewal || r.MaxHold != time.Hour || r.Features != locker.FeatureTTL {
		t.Errorf("Resolve = %+v", r)
	}
	if r, err := locker.Resolve("name"); err != nil || r.TTL != 0 || r.Features != 0 {
		t.Errorf("Resolve without options = %+v, %v; want the zero value of everything but the name", r, err)
	}
}

func TestResolveRefuses(t *testing.T) {
	for what, opt := range map[string]locker.Option{
		"TTL 0":             locker.WithTTL(0),
		"negative TTL":      locker.WithTTL(-time.Second),
		"longest hold 0":    locker.WithMaxHold(0),
		"negative max hold": locker.WithMaxHold(-1),
		"holder":            locker.WithHolder(""),
		"minimum hold 0":    locker.WithMinHold(0),
		"negative min hold": locker.WithMinHold(-1),
		"endless min hold":  locker.WithMinHold(1<<63 - 1),
	} {
		// A good option after a bad one must not hide it.
		if _, err := locker.Resolve("name", opt, locker.WithTTL(time.Second), locker.WithMaxHold(time.Second)); !errors.Is(err, locker.ErrOption) {
			t.Errorf("%s: Resolve = %v, want ErrOption", what, err)
		}
	}
	for _, opts := range [][]locker.Option{
		{locker.WithMinHold(time.Second + 1), locker.WithMaxHold(time.Second)}, {locker.WithMaxHold(time.Second), locker.WithMinHold(time.Second + 1)},
	} {
		if _, err := locker.Resolve("name", opts...); !errors.Is(err, locker.ErrOption) {
			t.Errorf("a minimum hold that is longer than the longest one: Resolve = %v, want ErrOption", err)
		}
	}
	if _, err := locker.Resolve("name", locker.WithMaxHold(time.Second), locker.WithMinHold(time.Second)); err != nil {
		t.Errorf("a minimum hold that is the longest one: Resolve = %v", err)
	}
	if _, err := locker.Resolve("", locker.WithTTL(0)); !errors.Is(err, locker.ErrName) {
		t.Errorf("Resolve of an empty name = %v, want ErrName", err)
	}
}

// The decorator of the examples leaves its caller's slice alone: several goroutines may share it.
func TestTheExampleOfADecoratorCopiesOptions(t *testing.T) {
	l := shortHolds{membackend.New()}
	defer l.Close()
	opts := make([]locker.Option, 0, 4)
	lease, err := l.Acquire(t.Context(), "name", opts...)
	if err != nil {
		t.Fatal(err)
	}
	release(t, lease)
	if opts[:1][0] != nil {
		t.Error("it has written into its caller's slice")
	}
}
