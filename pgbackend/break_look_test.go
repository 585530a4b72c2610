package pgbackend_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// What Break says of a lease after its request, by who has the lock then.

// held is a session that has the lock a.
type held struct {
	pid  int
	gate bool
	row  string // the token; "": there is no row, or it can't be read
}

// table is what a look finds; no sessions: the lock is free.
func table(sessions ...held) (rows [][]string) {
	k := pgbackend.KeyOf("locker", "locker:", "a")
	var leases [][]string
	for _, h := range sessions {
		presence := pgbackend.Key(int64(pgbackend.OwnSpace)<<32 | 1<<31 | int64(h.pid))
		rows = append(rows, seen(entry(presence, 2, h.pid, true, ""), "", "0"), seen(entry(k, 1, h.pid, true, ""), "", "0"))
		if h.gate {
			rows = append(rows, seen(entry(k, 2, h.pid, true, ""), "", "0"))
		}
		if h.row != "" {
			leases = append(leases, leaseRow(k, 1<<31+h.pid, h.row, "5000000", "30000", "a", "1795221171926 me"))
		}
	}
	return append(rows, leases...)
}

// isRequest reports whether a statement is Break's request.
func isRequest(sql string) bool {
	return strings.HasPrefix(sql, "WITH locks AS ") || strings.Contains(sql, " FOR UPDATE;")
}

// breaks breaks the lease with the token 81 while there are some sessions. With the first request this
// changes, by then, which says what to do with the request. It returns also how long it took.
func breaks(t *testing.T, atOnce bool, first [][]string, then func(f *fake) string) (effect locker.Effect, took time.Duration, err error) {
	t.Helper()
	f, l := labelled(t)
	f.change(func(f *fake) {
		f.table = first
		isFirst := true
		f.before = func(sql string) string {
			if !isRequest(sql) || !isFirst {
				return ""
			}
			isFirst = false
			return then(f)
		}
	})
	began := time.Now()
	effect, err = locker.Break(t.Context(), l, "a", 81, locker.Breach{Reason: "hangs", AtOnce: atOnce})
	took = time.Since(began)
	closeLocker(t, l)
	return effect, took, err
}

// wantOutcome checks that a break has ended at once with the lock free, or with an error that says so.
func wantOutcome(t *testing.T, effect locker.Effect, took time.Duration, err error, says string) {
	t.Helper()
	switch {
	case says == "" && (err != nil || effect != (locker.Effect{}) || took > time.Second):
		t.Errorf("Break = %+v, %v after %v, want that the lock is free, in no time", effect, err, took)
	case says != "" && (!errors.Is(err, locker.ErrNoAnswer) || !strings.Contains(err.Error(), says)):
		t.Errorf("Break = %+v, %v, want ErrNoAnswer that says %q", effect, err, says)
	}
}

const (
	waited = true // for held.gate: it was granted after a wait
	tried  = false
)

// The answer to the request is lost.
func TestBreakWithoutAnAnswer(t *testing.T) {
	transaction := [][]string{seen(entry(pgbackend.KeyOf("locker", "locker:", "a"), 1, 6, true, ""), "", "0")}
	for name, c := range map[string]struct {
		first, then [][]string
		atOnce      string // what an error of a break at once says; "": none
		marking     string // the same of a break that isn't
	}{
		"a lease that had waited may have moved": {table(held{5, waited, "81"}), table(held{6, tried, ""}), "the lease may have ended", "may be marked"},
		"it moves":                               {table(held{5, waited, "81"}), table(held{5, waited, ""}, held{6, tried, ""}), "the lease may have ended", "may be marked"},
		"its row can't be read":                  {table(held{5, waited, "81"}), table(held{5, waited, ""}), "the lease may have ended", "may be marked"},
		"the row of one that had not waited":     {table(held{5, tried, "81"}), table(held{5, tried, ""}), "the lease may have ended", "may be marked"},
		"one that had not waited can't move":     {table(held{5, tried, "81"}), table(held{6, tried, ""}), "", ""},
		"the next one has waited as well":        {table(held{5, waited, "81"}), table(held{6, waited, ""}), "", ""},
		"the next one has written its token":     {table(held{5, waited, "81"}), table(held{6, tried, "82"}), "", ""},
		"a transaction has the lock":             {table(held{5, waited, "81"}), transaction, "", ""},
		"nobody has the lock":                    {table(held{5, waited, "81"}), nil, "", ""},
		"its row came after the look":            {table(held{5, tried, ""}), nil, "the lease may have ended", "may be marked"},
		"it came so late, a transaction has":     {table(held{5, tried, ""}), transaction, "the lease may have ended", "may be marked"},
		"it came so late, nobody has a row":      {table(held{5, tried, ""}), table(held{6, tried, ""}), "the lease may have ended", "may be marked"},
		"it came so late, and the next one has":  {table(held{5, tried, ""}), table(held{6, tried, "82"}), "the lease may have ended", "may be marked"},
	} {
		for _, atOnce := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				t.Logf("%s (at once: %v)", name, atOnce)
				effect, took, err := breaks(t, atOnce, c.first, func(f *fake) string {
					f.table = c.then
					return "hang up"
				})
				says := c.marking
				if atOnce {
					says = c.atOnce
				}
				wantOutcome(t, effect, took, err, says)
			})
		}
	}
}

// The server is silent.
func TestBreakThatIsNotAnswered(t *testing.T) {
	for atOnce, says := range map[bool]string{true: "the lease may have ended", false: "the lease may be marked"} {
		synctest.Test(t, func(t *testing.T) {
			effect, took, err := breaks(t, atOnce, table(held{5, tried, "81"}), func(*fake) string { return "silence" })
			wantOutcome(t, effect, took, err, says)
		})
	}
}

// The session of a lease that had waited is ended, and the lease may have left it just before.
func TestBreakAtOnceOfALeaseThatHadWaited(t *testing.T) {
	for name, c := range map[string]struct {
		first, then [][]string
		says        string
	}{
		"it may have moved":                {table(held{5, waited, "81"}), table(held{6, tried, ""}), "the lease may have ended"},
		"its row has come after the look":  {table(held{5, waited, ""}), table(held{6, tried, ""}), "the lease may have ended"},
		"the next one has waited as well":  {table(held{5, waited, "81"}), table(held{6, waited, ""}), ""},
		"nobody has the lock":              {table(held{5, waited, "81"}), nil, ""},
		"the row, and nobody has the lock": {table(held{5, waited, ""}), nil, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			t.Log(name)
			effect, took, err := breaks(t, true, c.first, func(f *fake) string {
				f.marked, f.table = [][]string{{"2147483653", "0", "5", "t", "t"}}, c.then
				return ""
			})
			wantOutcome(t, effect, took, err, c.says)
		})
	}
}

// A lease that had waited has moved when its first session is ended. It ends with the next one, and
// with the other leases there, if that is wanted.
func TestBreakAtOnceOfALeaseThatHasMoved(t *testing.T) {
	for _, withOthers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f, l := labelled(t)
			f.change(func(f *fake) {
				f.table = table(held{5, waited, "81"})
				requests := 0
				f.before = func(sql string) string {
					if isRequest(sql) {
						requests++
						switch requests {
						case 1:
							f.marked, f.table = [][]string{{"2147483653", "0", "5", "t", "t"}}, table(held{6, tried, "81"})
						case 2, 3: // others are counted first
							f.marked = [][]string{{"2147483654", "2", "6", "f", ""}}
						}
					}
					return ""
				}
			})
			effect, err := locker.Break(t.Context(), l, "a", 81, locker.Breach{AtOnce: true, WithOthers: withOthers})
			if effect != (locker.Effect{Others: 2}) || (err != nil) == withOthers || err != nil && !errors.Is(err, locker.ErrOption) {
				t.Errorf("Break at once, with others: %v = %+v, %v", withOthers, effect, err)
			}
			closeLocker(t, l)
		})
	}
}

// A lease is marked whose row came after the look, and it is over at the next look.
func TestBreakOfALeaseWhoseRowHasJustCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		effect, took, err := breaks(t, false, table(held{5, waited, ""}), func(f *fake) string {
			f.marked, f.table = [][]string{{"30000", "t", "5"}}, nil
			return ""
		})
		wantOutcome(t, effect, took, err, "")
	})
}

// A lease that was not waited for is on the session that is ended, and there is no other look.
func TestBreakAtOnceLooksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := labelled(t)
		f.change(func(f *fake) {
			f.table, f.marked = table(held{5, tried, "81"}), [][]string{{"2147483653", "0", "5", "f", "t"}}
		})
		effect, err := locker.Break(t.Context(), l, "a", 81, locker.Breach{AtOnce: true})
		if n := f.statements("SELECT l.classid"); effect != (locker.Effect{}) || err != nil || n != 1 {
			t.Errorf("Break at once = %+v, %v after %d looks, want that the lock is free, and one look", effect, err, n)
		}
		closeLocker(t, l)
	})
}

// After the request another server answers, on which nobody has the lock, or somebody else. A server
// that was restarted is the same one.
func TestBreakWhileAnotherServerTakesOver(t *testing.T) {
	for _, atOnce := range []bool{true, false} {
		for name, c := range map[string]struct {
			promoted int
			then     [][]string
			says     string
		}{
			"a replica":                     {1, nil, "another one has taken over"},
			"a replica with another holder": {1, table(held{6, waited, "90"}), "another one has taken over"},
			"a restart":                     {0, nil, ""},
		} {
			synctest.Test(t, func(t *testing.T) {
				t.Logf("%s (at once: %v)", name, atOnce)
				effect, took, err := breaks(t, atOnce, table(held{5, tried, "81"}), func(f *fake) string {
					f.promoted, f.server, f.table = f.promoted+c.promoted, f.server+1, c.then
					return "hang up"
				})
				wantOutcome(t, effect, took, err, c.says)
				if err != nil && strings.Contains(err.Error(), "look again") {
					t.Errorf("Break = %v, want no word of another look: it would be of the other server", err)
				}
			})
		}
	}
}
