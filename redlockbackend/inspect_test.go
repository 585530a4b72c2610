package redlockbackend_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
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
		"somebody else's key":             {answers: []any{about("x", 9, 0), free, free, free, free}, partial: "x"},
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
			holder = s.Holder.Owner + " " + s.Holder.Token.String() + " " + s.Holder.Expires.String()
		}
		if holder != tc.holder || owners(s.Partial) != tc.partial || owners(s.Waiters) != tc.waiters || s.Waiting != tc.waiting {
			t.Errorf("%s: holder %q, partial %q, waiters %q of %d, want %q, %q, %q of %d", what,
				holder, owners(s.Partial), owners(s.Waiters), s.Waiting, tc.holder, tc.partial, tc.waiters, tc.waiting)
		}
		if what == "waiters" && !s.Waiters[0].Asked.Equal(time.UnixMicro(1795221171926053)) {
			t.Errorf("the first waiter has asked at %v", s.Waiters[0].Asked)
		}
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
		list = append(list, p.Owner)
	}
	return strings.Join(list, " ")
}
