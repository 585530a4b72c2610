package driver_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestLabel(t *testing.T) {
	at := time.UnixMilli(1795221171926)
	for _, tc := range []struct {
		label driver.Label
		text  string
	}{
		{driver.Label{}, ""},
		{driver.Label{Holder: "web-7f9c/4711/reportd", Asked: at}, "1795221171926 web-7f9c/4711/reportd"},
		{driver.Label{Holder: "deploy by alice", Trace: traceparent, Asked: at}, "1795221171926;" + traceparent + " deploy by alice"},
		{driver.Label{Holder: "12"}, "0 12"},
		{driver.Label{Holder: " 日本 ", Asked: at}, "1795221171926  日本 "},
		{driver.Label{Trace: traceparent}, "0;" + traceparent + " "},
		{driver.Label{Holder: strings.Repeat("n", 200), Asked: at}, "1795221171926 " + strings.Repeat("n", 200)},
	} {
		if got := tc.label.String(); got != tc.text {
			t.Errorf("%+v is written as %q, want %q", tc.label, got, tc.text)
		}
		if got := driver.ParseLabel(tc.text); !sameLabel(got, tc.label) {
			t.Errorf("%q is read as %+v, want %+v", tc.text, got, tc.label)
		}
	}
}

func sameLabel(a, b driver.Label) bool {
	return a.Holder == b.Holder && a.Trace == b.Trace && a.Asked.Equal(b.Asked)
}

// What is no label is a Holder, printable and short.
func TestParseLabelOfAnything(t *testing.T) {
	for text, want := range map[string]string{
		"deploy":               "deploy",
		"12":                   "12",
		"x web":                "x web",
		"-1 web":               "-1 web",
		"+1 web":               "+1 web",
		"1;x web":              "1;x web",
		"253402300800000 a":    "253402300800000 a",
		"1 a\x1b[2Jb\x00\n":    "a\uFFFD[2Jb\uFFFD\uFFFD",
		"\xff\xfe":             "\uFFFD\uFFFD",
		"{\"json\":\n\t true}": "{\"json\":\uFFFD\uFFFD true}",
	} {
		if got := driver.ParseLabel(text).Holder; got != want {
			t.Errorf("%q is read as the holder %q, want %q", text, got, want)
		}
	}
	if got := driver.ParseLabel(strings.Repeat("日", 1<<20)).Holder; got != strings.Repeat("日", 66) {
		t.Errorf("a text of three megabytes is read as %q", got)
	}
}

func FuzzParseLabel(f *testing.F) {
	for _, s := range []string{"", " ", "1 a", "0 ", "007 a", "1;" + traceparent + " a", "1; a", "\n", "9223372036854775807 a", "\xff 1", strings.Repeat("ä", 200)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		label := driver.ParseLabel(text)
		written := label.String()
		if again := driver.ParseLabel(written); !sameLabel(again, label) || again.String() != written {
			t.Errorf("%q: %+v is written as %q and read as %+v", text, label, written, again)
		}
		if len(label.Holder) > locker.MaxHolder || len(written) > 272 || label.Trace != "" && !locker.ValidTrace(label.Trace) {
			t.Errorf("%q is too long, or its trace is invalid: %+v", text, label)
		}
		for _, s := range []string{label.Holder, written} {
			if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
				t.Errorf("%q: %q isn't printable", text, s)
			}
		}
	})
}

// A label is one line, whatever it is made of.
func TestLabelIsOneLine(t *testing.T) {
	l := driver.Label{Holder: "a\nb", Trace: "x\ny", Asked: time.Unix(1<<40, 0)}
	if got := l.String(); got != "0 a\uFFFDb" {
		t.Errorf("%+v is written as %q", l, got)
	}
}

func TestLabelOf(t *testing.T) {
	bubble(t, func(t *testing.T) {
		req := locker.Request{Holder: "web", Trace: traceparent}
		if got, want := driver.LabelOf(req), (driver.Label{Holder: "web", Trace: traceparent, Asked: time.Now()}); got != want {
			t.Errorf("LabelOf = %+v, want %+v", got, want)
		}
		req.Holder = "-"
		if got := driver.LabelOf(req); got != (driver.Label{}) || got.String() != "" {
			t.Errorf("LabelOf a request that says nothing = %+v, %q", got, got)
		}
	})
}

func TestDescribe(t *testing.T) {
	at, known := time.UnixMilli(1), time.UnixMilli(2)
	label := driver.Label{Holder: "web", Trace: traceparent, Asked: at}
	for _, asked := range []time.Time{{}, known} {
		p := locker.Party{Owner: "x", Asked: asked}
		label.Describe(&p)
		want := locker.Party{Owner: "x", Holder: "web", Trace: traceparent, Asked: at}
		if !asked.IsZero() {
			want.Asked = asked
		}
		if p != want {
			t.Errorf("Describe makes %+v, want %+v", p, want)
		}
	}
}

// the trace is from the caller's context, after tracers have added theirs; of what is no
// traceparent nothing arrives.
func TestTheTraceThatADriverSees(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		l := open(t, f)
		acquire := func(ctx context.Context) string {
			t.Helper()
			lease, err := l.Acquire(ctx, "name")
			if err != nil {
				t.Fatal(err)
			}
			_ = lease.Release(ctx)
			locks := f.prepared()
			return locks[len(locks)-1].req.Trace
		}
		if got := acquire(t.Context()); got != "" {
			t.Errorf("Trace = %q without one", got)
		}
		if got := acquire(locker.ContextWithTrace(t.Context(), traceparent)); got != traceparent {
			t.Errorf("Trace = %q, want the caller's", got)
		}
		if got := acquire(locker.ContextWithTrace(t.Context(), "none")); got != "" {
			t.Errorf("Trace = %q of what is no traceparent", got)
		}
		attach(t, l, &tracer{begin: func(ctx context.Context, _ locker.Request) context.Context {
			return locker.ContextWithTrace(ctx, traceparent)
		}}, 0)
		if got := acquire(t.Context()); got != traceparent {
			t.Errorf("Trace = %q, want the tracer's", got)
		}
	})
}

// An acquisition that says nothing has no holder in events and lists.
func TestHolderThatSaysNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := open(t, &fake{})
		w := watch(t, l)
		mustAcquire(t, l, "name", locker.WithHolder("-"))
		if got := leasesOf(t, l); len(got) != 1 || got[0].Holder != "" {
			t.Errorf("Leases = %+v", got)
		}
		for _, e := range w.take() {
			if e.Holder != "" {
				t.Errorf("%v has the holder %q", e.Kind, e.Holder)
			}
		}
	})
}

func BenchmarkLabel(b *testing.B) {
	req := locker.Request{Holder: locker.DefaultHolder()}
	b.ReportAllocs()
	for b.Loop() {
		_ = driver.LabelOf(req).String()
	}
}

// A time that JSON has stays one in every zone.
func TestLabelTimeInJSON(t *testing.T) {
	zone := time.Local
	defer func() { time.Local = zone }()
	time.Local = time.FixedZone("east", 14*3600)
	var p locker.Party
	driver.ParseLabel("253402300799999 x").Describe(&p)
	if _, err := json.Marshal(p); err != nil || p.Asked.IsZero() {
		t.Errorf("%+v: %v", p, err)
	}
}
