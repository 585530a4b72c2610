package top

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// typed presses keys, and returns the call that is due then, if there is one.
func typed(v *view, keys ...key) (step, bool) {
	for _, k := range keys {
		v.press(k)
	}
	return v.next()
}

// inQuestion is a view that shows the question about its first lock.
func inQuestion(t *testing.T, k key) *view {
	t.Helper()
	v := newView()
	call, due := typed(v, k)
	if !due || call.breaks || call.row.Token != "8" || call.atOnce != (k == 'B') {
		t.Fatalf("after %c: %+v, %v, want the question about the lock at the cursor", k, call, due)
	}
	if _, again := v.next(); again {
		t.Fatal("the question is asked twice")
	}
	v.answered(answer{of: call.of, text: "a is held by db, token 8\nTake it away?"})
	return v
}

func screen(v *view) string { return strings.Join(v.lines(80, 12), "|") }

func TestTakeAway(t *testing.T) {
	v := inQuestion(t, 'b')
	if got := screen(v); !strings.Contains(got, "token 8|Take it away?||Reason: |") {
		t.Errorf("the screen is %q", got)
	}
	for _, k := range "hangs, q" { // no key of these is a command
		if call, due := typed(v, key(k)); due {
			t.Fatalf("%c calls %+v", k, call)
		}
	}
	if call, due := typed(v, keyEnter); due || !strings.Contains(screen(v), "Reason: hangs, q||y takes it away") {
		t.Fatalf("after the reason: %+v, %v, %q", call, due, screen(v))
	}
	call, due := typed(v, 'y')
	if !due || !call.breaks || call.atOnce || call.reason != "hangs, q" || call.row.Token != "8" {
		t.Fatalf("after y: %+v, %v", call, due)
	}
	if again, due := typed(v, 'y', keyEnter, keyBack); due {
		t.Errorf("keys during the call call %+v", again)
	}
	v.answered(answer{of: call.of, text: "marked"})
	if got := v.lines(80, 12); got[11] != "a: marked" || v.taking != nil {
		t.Errorf("at the end the screen is %q", got)
	}
	if v.press('s'); strings.Contains(screen(v), "marked") {
		t.Error("what was done stays after the next key")
	}
}

// The lease that was shown when b was pressed is the one that is taken away, whatever later looks find.
func TestTakeAwayWhatWasShown(t *testing.T) {
	v := inQuestion(t, 'B')
	later := rows()
	later[1].Token = "9"
	v.take(found{rows: later})
	if call, due := typed(v, 'x', keyEnter, 'y'); !due || call.row.Token != "8" || !call.atOnce {
		t.Errorf("%+v, %v, want the lease with the token 8, at once", call, due)
	}
}

func TestNothingIsTakenAway(t *testing.T) {
	for what, keys := range map[string][]key{
		"Escape at the reason":       {keyBack},
		"Escape in a reason":         {'x', keyBack},
		"no":                         {'x', keyEnter, 'n'},
		"Enter at the answer":        {'x', keyEnter, keyEnter},
		"Escape at the answer":       {'x', keyEnter, keyBack},
		"b again at the answer":      {'x', keyEnter, 'b'},
		"no reason":                  {keyEnter, keyEnter},
		"a reason of blanks":         {' ', keyEnter},
		"a reason that was deleted":  {'x', keyDelete, keyEnter},
		"y, which is for the reason": {'y'},
	} {
		v := inQuestion(t, 'b')
		if call, due := typed(v, keys...); due {
			t.Errorf("%s: %+v", what, call)
		}
	}
	v := newView()
	call, _ := typed(v, 'b')
	if _, due := typed(v, 'y', keyEnter, 'y'); due {
		t.Error("keys before the question are an answer to it")
	}
	v.press(keyBack)
	v.answered(answer{of: call.of, text: "Take it away?"})
	if v.taking != nil {
		t.Error("the answer to a question that was dropped is shown")
	}
	v.press('b')
	v.answered(answer{of: v.taking, err: errors.New("nobody holds a")})
	if got := v.lines(80, 12)[11]; v.taking != nil || got != "nobody holds a" {
		t.Errorf("after a question that failed the last line is %q", got)
	}
	v.chosen = "k3"
	if _, due := typed(v, 'b'); due || !strings.Contains(v.lines(80, 12)[11], "doesn't know the name") {
		t.Error("a lock without a name can be taken away")
	}
	if _, due := typed(&view{}, 'b', 'B'); due {
		t.Error("something can be taken away where no lock is")
	}
}

// The open lock is taken away as the newest look shows it.
func TestTakeAwayTheOpenLock(t *testing.T) {
	v := newView()
	v.press(keyDown)
	v.press(keyEnter)
	later := rows()
	later[0].Token = "70"
	v.take(found{rows: later})
	if call, due := typed(v, 'b'); !due || call.row.Token != "70" {
		t.Errorf("%+v, %v", call, due)
	}
}

// What a question says is not cut at the edge of the screen.
func TestQuestionOnANarrowScreen(t *testing.T) {
	v := inQuestion(t, 'b')
	if got := strings.Join(v.lines(10, 20), ""); !strings.Contains(got, "a is held by db, token 8Take it away?") {
		t.Errorf("the screen is %q", got)
	}
}

func TestUnknownWaiters(t *testing.T) {
	v := &view{}
	v.take(found{rows: []Row{{Key: "k", Title: "a", Waiting: "?", Waiters: -1}}})
	if got := v.foot(); !strings.HasPrefix(got, "1 lock; the list") {
		t.Errorf("where nobody knows who waits the last line is %q", got)
	}
	if got := newView().foot(); !strings.HasPrefix(got, "3 locks, 3 waiting; ") {
		t.Errorf("where it is known of some the last line is %q", got)
	}
}

// The first in the line waits on each slot, and counts once.
func TestWaitersForPermits(t *testing.T) {
	v := &view{}
	v.take(found{rows: []Row{{Name: "a", Slot: 1, Waiters: 1}, {Name: "a", Slot: 2, Waiters: 1}, {Name: "a", Slot: -1, Waiters: 1}, {Name: "b", Slot: -1, Free: true}}})
	if got := v.foot(); !strings.HasPrefix(got, "2 locks, 2 waiting; ") {
		t.Errorf("the last line is %q", got)
	}
}

// Both goroutines, from the first key to the service and back.
func TestTakeAwayOnAScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, keys := io.Pipe()
		out := make(chan string, 1000)
		var broken []string
		s := Screen{
			Every: time.Second, In: in, Out: writer(out), Size: func() (int, int) { return 80, 12 },
			List:     func(context.Context) ([]Row, string, error) { return rows(), "", nil },
			Question: func(_ context.Context, r Row, _ bool) (string, error) { return "Take away " + r.Token + "?", nil },
			Break: func(_ context.Context, r Row, _ bool, reason string) (string, error) {
				broken = append(broken, r.Token+" "+reason)
				return "marked", nil
			},
		}
		ended := make(chan error)
		go func() { ended <- s.Run(t.Context()) }()
		see := func(text string) {
			t.Helper()
			for range 1000 {
				if strings.Contains(<-out, text) {
					return
				}
			}
			t.Fatalf("the screen doesn't show %q", text)
		}
		see("(key k3)")
		for _, step := range []struct{ keys, see string }{{"b", "Take away 8?"}, {"hangs", "Reason: hangs"}, {"\r", "y takes it away"}, {"y", "a: marked"}, {"q", leave}} {
			_, _ = io.WriteString(keys, step.keys)
			see(step.see)
		}
		_ = keys.Close()
		if err := <-ended; err != nil || len(broken) != 1 || broken[0] != "8 hangs" {
			t.Errorf("Run = %v, taken away %q", err, broken)
		}
	})
}

type writer chan<- string

func (w writer) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}
