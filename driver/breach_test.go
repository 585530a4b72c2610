package driver_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

func TestBreachAsText(t *testing.T) {
	at := time.UnixMilli(1795370723000).UTC()
	longest := locker.Breach{
		By: strings.Repeat("b", locker.MaxHolder), Reason: strings.Repeat("r", locker.MaxReason),
		At: time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC), AtOnce: true, Slot: locker.MaxPermits,
	}
	for _, tc := range []struct {
		breach locker.Breach
		text   string
	}{
		{locker.Breach{}, "0 0  "},
		{locker.Breach{By: "bob@ops-1", Reason: "hangs since 17:50, OPS-119", At: at}, "1795370723000 9 bob@ops-1 hangs since 17:50, OPS-119"},
		{locker.Breach{By: "bob@ops-1", At: at, AtOnce: true}, "1795370723000;now 9 bob@ops-1 "},
		{locker.Breach{By: "bob of ops", Reason: " 日本 ", At: at}, "1795370723000 10 bob of ops  日本 "},
		{locker.Breach{By: "日本", Reason: "1 2 3"}, "0 6 日本 1 2 3"},
		{locker.Breach{By: "bob", Reason: "r", At: at, Slot: 3}, "1795370723000;slot=3 3 bob r"},
		{locker.Breach{By: "bob", Reason: "r", Slot: locker.LineSlot}, "0;slot=-1 3 bob r"},
		{longest, "253402300799999;now;slot=1000 200 " + longest.By + " " + longest.Reason},
	} {
		if got := driver.FormatBreach(tc.breach); got != tc.text {
			t.Errorf("%+v is written as %q, want %q", tc.breach, got, tc.text)
		}
		if got := driver.ParseBreach(tc.text); got != tc.breach {
			t.Errorf("%q is read as %+v, want %+v", tc.text, got, tc.breach)
		}
	}
	if n := len(driver.FormatBreach(longest)); n != driver.MaxBreach {
		t.Errorf("the longest text has %d bytes, want %d", n, driver.MaxBreach)
	}
	if got := driver.FormatBreach(locker.Breach{By: "a\nb", Reason: "c\x00", At: time.Unix(-1, 0), WithOthers: true}); got != "0 5 a\uFFFDb c\uFFFD" {
		t.Errorf("a text is written as %q, want one printable line", got)
	}
}

// What is no text of FormatBreach is a Breach all the same.
func TestParseBreachOfAnything(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "",
		"somebody":              "somebody",
		"12":                    "12",
		"12 3":                  "12 3",
		"12 3 bob":              "12 3 bob",
		"12 3 bobby b":          "12 3 bobby b",
		"12 -1 bob b":           "12 -1 bob b",
		"-1 3 bob b":            "-1 3 bob b",
		"12;then 3 bob b":       "12;then 3 bob b",
		"12;slot=0 3 bob b":     "12;slot=0 3 bob b",
		"12;slot=03 3 bob b":    "12;slot=03 3 bob b",
		"12;slot=-2 3 bob b":    "12;slot=-2 3 bob b",
		"12;slot=1001 3 bob b":  "12;slot=1001 3 bob b",
		"12;slot=3;now 3 bob b": "12;slot=3;now 3 bob b",
		"253402300800000 1 a b": "253402300800000 1 a b",
		"12 99999999999 a b":    "12 99999999999 a b",
		"a\x1b[2J\n\xff":        "a\uFFFD[2J\uFFFD\uFFFD",
	} {
		if got := driver.ParseBreach(text); got != (locker.Breach{Reason: want}) {
			t.Errorf("%q is read as %+v, want the reason %q", text, got, want)
		}
	}
	if got := driver.ParseBreach(strings.Repeat("日", 1<<20)).Reason; got != strings.Repeat("日", locker.MaxReason/3) {
		t.Errorf("a text of three megabytes is read as %q", got)
	}
}

func FuzzParseBreach(f *testing.F) {
	for _, s := range []string{"", " ", "0 0  ", "1;now 1 a b", "1;now;now 1 a b", "1;slot=3 1 a b", "1;now;slot=-1 1 a b", "1;slot= 1 a b", "7 2 日 b", "\n", "9223372036854775807 0  ", strings.Repeat("1 200 ä", 200)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b := driver.ParseBreach(text)
		written := driver.FormatBreach(b)
		if again := driver.ParseBreach(written); again != b || driver.FormatBreach(again) != written {
			t.Errorf("%q: %+v is written as %q and read as %+v", text, b, written, again)
		}
		if len(written) > driver.MaxBreach {
			t.Errorf("%q is written with %d bytes", text, len(written))
		}
		if _, err := locker.ResolveBreach("a", 1, b); err != nil {
			t.Errorf("%q is read as a Breach that is invalid: %v", text, err)
		}
		if !utf8.ValidString(written) || strings.ContainsFunc(written, unicode.IsControl) {
			t.Errorf("%q: %q isn't printable", text, written)
		}
	})
}

func TestBrokenIsALossWithItsBreach(t *testing.T) {
	b := locker.Breach{By: "bob", Reason: "hangs"}
	err := driver.Broken(b)
	var found *locker.Breach
	if !errors.Is(err, locker.ErrLost) || !errors.Is(err, locker.ErrBroken) || !errors.As(err, &found) || *found != b {
		t.Errorf("%v contains %+v", err, found)
	}
}
