package redlockbackend_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/redlockbackend"
)

// Every command of the scripts is one that the probe tries.
func TestProbeTriesAll(t *testing.T) {
	called := regexp.MustCompile(`redis\.p?call\('(\w+)'`)
	probe := redlockbackend.Scripts()["probe"]
	n := 0
	for name, text := range redlockbackend.Scripts() {
		if strings.Contains(text, "-- include ") {
			t.Errorf("%s: something is not included", name)
		}
		for _, m := range called.FindAllStringSubmatch(text, -1) {
			if n++; !strings.Contains(probe, "try('"+m[1]+"'") {
				t.Errorf("%s calls %s, which the probe doesn't try", name, m[1])
			}
		}
	}
	if n < 30 {
		t.Errorf("the scripts call %d commands, want more", n)
	}
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		val  any
		n    int
		want []string
	}{
		{[]any{"raised"}, 1, []string{"raised"}},
		{[]any{"granted 1795242046350567 1795245646350567"}, 1, []string{"granted"}},
		{[]any{"held 500 0 0f", "held -1 3 ?", "gone", "raised"}, 4, []string{"held", "held", "gone", "raised"}},
		{[]any{"renewed", "gone"}, 2, []string{"renewed", "gone"}},
		{[]any{"released", "refused OOM command not allowed"}, 2, []string{"released", "refused"}},
		{"waits 5000", 3, []string{"waits", "waits", "waits"}},
		{"differs 60000", 1, []string{"differs"}},
		{"ready", 1, []string{"ready"}},
		{"new", 1, []string{"new"}},
		{"known", 1, []string{"known"}},

		// None that they give.
		{[]any{"raised"}, 2, nil},
		{[]any{"raised", "raised"}, 1, nil},
		{[]any{int64(1)}, 1, nil},
		{[]any{"raised 5"}, 1, nil},
		{[]any{"granted"}, 1, nil},
		{[]any{"granted 5"}, 1, nil},
		{[]any{"granted 1.795e+15 1"}, 1, nil},
		{[]any{"granted 99999999999999999999 1"}, 1, nil},
		{[]any{"held"}, 1, nil},
		{[]any{"held 5"}, 1, nil},
		{[]any{"held x 0 0f"}, 1, nil},
		{[]any{""}, 1, nil},
		{"", 1, nil},
		{"waits", 1, nil},
		{nil, 1, nil},
		{int64(7), 1, nil},
	} {
		got, err := redlockbackend.ParseAnswer(c.val, c.n)
		if c.want == nil {
			if err == nil {
				t.Errorf("%v was read as %q, want an error", c.val, got)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v was read as %q, %v, want %q", c.val, got, err, c.want)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	for _, s := range []string{"raised", "granted 1 2", "held 1 2 a", "waits 5", "", "held -1 0 ?", "refused x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, err := redlockbackend.ParseAnswer([]any{s}, 1); err == nil && !strings.HasPrefix(s, got[0]) {
			t.Errorf("%q was read as %q", s, got)
		}
	})
}

func TestClock(t *testing.T) {
	var c redlockbackend.Clock
	last := c.Propose()
	for range 1000 {
		next := c.Propose()
		if next <= last {
			t.Fatalf("%d was proposed after %d", next, last)
		}
		last = next
	}
	for _, off := range []int64{1e9, -5e9} { // in either direction: the others are right
		agreed := last + 1 + locker.Token(off)
		c.Learn(agreed)
		if next := c.Propose(); next <= agreed || next > agreed+60e6 {
			t.Errorf("after %d was agreed to, %d was proposed", agreed, next)
		}
	}
}
