package redlockbackend_test

import (
	"cmp"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn/redistest"
	"github.com/fencedlock/locker/redlockbackend"
)

// about is what a server answers about a lock; lease "": there is no key.
func about(lease string, pttl int64, waiting int64, waiters ...any) any {
	var value any
	if lease != "" {
		value = lease
	}
	return append([]any{"p:{a}", value, pttl, waiting}, waiters...)
}

func TestInspectJudgesTheServers(t *testing.T) {
	const asked = "1795221171926053"
	free := about("", -2, 0)
	own := func(pttl int64) any { return about("own 7", pttl, 0) }
	for what, tc := range map[string]struct {
		answers []any
		holder  string // with its token, and its time
		partial string // owners
		waiters string
		waiting int
	}{
		"free":                            {answers: []any{free, free, free, free, free}},
		"held":                            {answers: []any{own(10), own(50), own(30), own(40), own(20)}, holder: "own 7 30ms"},
		"held on a majority":              {answers: []any{own(10), free, own(30), free, own(20)}, holder: "own 7 10ms"},
		"held without an expiry":          {answers: []any{own(-1), own(-1), own(-1), own(40), own(20)}, holder: "own 7 0s"},
		"held on a minority":              {answers: []any{own(10), free, own(30), free, free}, partial: "own"},
		"a counter that isn't raised yet": {answers: []any{own(10), about("own 0", 9, 0), own(30), free, own(20)}, holder: "own 7 10ms"},
		"no counter is raised yet":        {answers: []any{about("own 0", 9, 0), about("own 0", 9, 0), about("own 0", 9, 0), free, free}, partial: "own"},
		"another one asks":                {answers: []any{own(10), about("late 8", 5, 0), own(30), own(9), free}, holder: "own 7 9ms", partial: "late"},
		"somebody else's key":             {answers: []any{about("x", 9, 0), free, free, free, free}, partial: "?"},
		"somebody else's keys":            {answers: []any{about("x", 9, 0), about("y z", 7, 0), about("x -1", 8, 0), free, free}, holder: "? 0 7ms"},
		"somebody else's keys for ever":   {answers: []any{about(" ", -1, 0), about("y", -1, 0), about("x", -1, 0), free, free}, holder: "? 0 0s"},
		"held for less than 1 ms":         {answers: []any{own(0), own(0), own(0), free, free}, holder: "own 7 1ms"},
		"held, and two are silent":        {answers: []any{own(10), own(20), nil, own(30), nil}, holder: "own 7 10ms"},
		"free, and two are silent":        {answers: []any{free, free, nil, free, nil}},
		"asked for, and two are silent":   {answers: []any{about("own 0", 9, 0), about("own 0", 9, 0), nil, free, nil}, partial: "own"},
		"a record, and one is silent":     {answers: []any{own(10), free, nil, free, free}, partial: "own"},
		"tickets that are no times": {answers: []any{
			about("", -2, 2, "p:free:w2", "1e+18", "p:free:w1", asked), about("", -2, 1, "p:free:w0", "-5e300"), free, free, free,
		}, waiters: "w0 w1", waiting: 3},
		"waiters": {answers: []any{
			about("own 7", 10, 2, "p:free:w2", "1795221171926054", "p:free:w3", "1795221171926055"),
			about("own 7", 10, 3, "p:free:w1", asked, "p:free:w2", "1795221171926054"), own(10), free, free,
		}, holder: "own 7 10ms", waiters: "w1 w2", waiting: 3},
		"kept for a waiter": {answers: []any{about("w1 turn", 90, 1, "p:free:w2", asked), about("w1 turn", 90, 1), free, free, free}, waiters: "w1 w2", waiting: 2},
	} {
		s, err := redlockbackend.Judge(tc.answers, 3, 2)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		holder := ""
		if s.Holder != nil {
			holder = cmp.Or(s.Holder.Owner, "?") + " " + s.Holder.Token.String() + " " + s.Holder.ExpiresIn.String()
		}
		if holder != tc.holder || owners(s.Partial) != tc.partial || owners(s.Waiters) != tc.waiters || s.Waiting != tc.waiting {
			t.Errorf("%s: holder %q, partial %q, waiters %q of %d, want %q, %q, %q of %d", what,
				holder, owners(s.Partial), owners(s.Waiters), s.Waiting, tc.holder, tc.partial, tc.waiters, tc.waiting)
		}
		if what == "waiters" && !s.Waiters[0].Asked.Equal(time.UnixMicro(1795221171926053)) {
			t.Errorf("the first waiter has asked at %v", s.Waiters[0].Asked)
		}
	}
	for what, answers := range map[string][]any{
		"two of three, and two are silent": {own(10), free, nil, own(30), nil},
		"one of three, and two are silent": {own(10), free, nil, free, nil},
		"somebody else's":                  {about("x", 9, 0), free, nil, about("y", 9, 0), nil},
	} {
		if s, err := redlockbackend.Judge(answers, 3, 2); !errors.Is(err, redlockbackend.ErrUnsure) {
			t.Errorf("%s: %+v, %v, want it unsure", what, s, err)
		}
	}
	for what, tc := range map[string]struct {
		answers []any
		left    time.Duration
	}{
		"the longest time": {[]any{own(10), free, own(30), free, free}, 30 * time.Millisecond},
		"never, on one":    {[]any{own(10), free, own(-1), free, free}, 0},
	} {
		if s, err := redlockbackend.Judge(tc.answers, 3, 2); err != nil || len(s.Partial) != 1 || s.Partial[0].ExpiresIn != tc.left {
			t.Errorf("on a minority, %s: %+v, %v, want one that expires in %v", what, s.Partial, err, tc.left)
		}
	}
	if s, _ := redlockbackend.Judge([]any{about("", -2, 1, "p:free:w", "1e+18")}, 1, 2); !s.Waiters[0].Asked.IsZero() {
		t.Errorf("a waiter has asked at %v, want no time", s.Waiters[0].Asked)
	}
	for _, wrong := range []any{[]any{"p:{a}"}, []any{"p:{a}", nil, "x", int64(0)}, []any{int64(1), nil, int64(0), int64(0)}, "x", []any{"p:{a}", nil, int64(0), int64(0), "channel"}} {
		if s, err := redlockbackend.Judge([]any{wrong}, 1, 0); err == nil {
			t.Errorf("Judge(%v) = %+v, want an error", wrong, s)
		}
	}
}

func owners(parties []locker.Party) string {
	var list []string
	for _, p := range parties {
		list = append(list, cmp.Or(p.Owner, "?"))
	}
	return strings.Join(list, " ")
}

// onServer is an answer of a server that has one lock, which is both a step of a list and the
// answer about the lock.
func onServer(lease string) string {
	value := "$-1\r\n"
	if lease != "" {
		value = redistest.Bulk(lease)
	}
	return "*2\r\n" + redistest.Bulk("0") + "*4\r\n" + redistest.Bulk(redlockbackend.LockKey("redlock:", "a", 0)) + value + ":5000\r\n:0\r\n"
}

// A held lock isn't shown as free because the servers that know it don't answer. (Most of the time that one
// ends its connections, which takes no time.)
func TestInspectWhileAMinorityIsSilent(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 500*time.Millisecond)
	l := driver.New(c.Driver, driver.Config{})
	look := func() (s locker.Status, errs [2]error, listed []locker.Status) {
		s, errs[0] = locker.Inspect(t.Context(), l, "a", locker.Look{})
		for one, err := range locker.List(t.Context(), l, "", 0) {
			if err != nil {
				errs[1] = err
				break
			}
			listed = append(listed, one)
		}
		return s, errs, listed
	}
	c.answer("inspect", onServer("own 7"), onServer("own 7"), silent)
	if s, errs, listed := look(); errs[0] != nil || errs[1] != nil || s.Holder == nil || len(listed) != 1 || listed[0].Holder == nil {
		t.Errorf("held on the two that answer: %+v, listed %+v, %v", s, listed, errs)
	}
	c.answer("inspect", onServer(""), onServer(""), hangUp)
	if s, errs, listed := look(); errs[0] != nil || errs[1] != nil || s.Holder != nil || len(listed) != 0 {
		t.Errorf("free on the two that answer: %+v, listed %+v, %v", s, listed, errs)
	}
	c.answer("inspect", onServer("own 7"), onServer(""), hangUp)
	s, errs, listed := look()
	for i, err := range errs {
		if err == nil || !strings.Contains(err.Error(), c.servers[2].addr) || strings.Contains(err.Error(), c.servers[0].addr) {
			t.Errorf("held on one of the two that answer: call %d = %v, want an error that names the other one", i, err)
		}
	}
	if s.Holder != nil || len(listed) != 0 {
		t.Errorf("held on one of the two that answer: %+v, listed %+v", s, listed)
	}
	c.servers[0].answers("inspect", onServer("own 7"), onServer(""), onServer("own 7"), onServer(""))
	if s, errs, listed := look(); errs[0] != nil || errs[1] != nil || s.Holder != nil || len(listed) != 0 {
		t.Errorf("released during the call: %+v, listed %+v, %v", s, listed, errs)
	}
}
