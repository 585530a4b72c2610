package pgbackend_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/pgsession"
	"github.com/fencedlock/locker/pgbackend"
)

// A lease on a waiter's connection is marked, and ends before the next look. The next holder has no
// row yet, so nobody can say whether it is the same lease, which has moved. If that goes on for
// longer than the call, the error says that the lease is marked.
func TestBreakOfALeaseThatEndsUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := labelled(t)
		f.change(func(f *fake) {
			f.table = table(held{5, waited, "81"})
			f.before = func(sql string) string {
				if strings.HasPrefix(sql, "WITH locks AS ") && f.marked == nil {
					f.marked, f.table = [][]string{{"30000", "t", "5"}}, table(held{6, tried, ""})
				} else if strings.HasPrefix(sql, "WITH locks AS ") {
					f.marked = [][]string{}
				}
				return ""
			}
		})
		_, err := locker.Break(t.Context(), l, "a", 81, locker.Breach{Reason: "hangs"})
		if err == nil || !strings.Contains(err.Error(), "the lease is marked") {
			t.Errorf("Break = %v, want an error that says that the lease is marked", err)
		}
		closeLocker(t, l)
	})
}

// Other leases are attached to the connection of the lease that is to be ended.
func TestBreakThatWouldEndOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := labelled(t)
		heldBy5(f)
		f.change(func(f *fake) { f.marked = [][]string{{"2147483653", "2", "5", "f", ""}} })
		effect, err := locker.Break(t.Context(), l, "a", 81, locker.Breach{Reason: "hangs", AtOnce: true})
		if effect != (locker.Effect{Others: 2}) || !errors.Is(err, locker.ErrOption) {
			t.Errorf("Break at once = %+v, %v, want ErrOption, and that 2 others would end", effect, err)
		}
		closeLocker(t, l)
	})
}

// After what time the lease is over is what its row says. Somebody else may have written that.
func TestTimeOfABreak(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30000": 30*time.Second + pgbackend.Guarantees().Expiry.Slack, "0": -1, "-5": -1, "": -1,
		"9000000000000000000": pgsession.MaxIdleTimeout + pgbackend.Guarantees().Expiry.Slack,
	} {
		synctest.Test(t, func(t *testing.T) {
			f, l := labelled(t)
			heldBy5(f)
			f.change(func(f *fake) { f.marked = [][]string{{text, "f", "5"}} })
			effect, err := locker.Break(t.Context(), l, "a", 81, locker.Breach{Reason: "hangs"})
			if effect != (locker.Effect{Within: want}) || err != nil {
				t.Errorf("with a TTL of %q ms, Break = %+v, %v, want %v", text, effect, err, want)
			}
			closeLocker(t, l)
		})
	}
}

// A lease on a waiter's connection is marked, and is over at the next look: the lock is free.
func TestBreakOfALeaseThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := labelled(t)
		heldBy5(f)
		f.change(func(f *fake) {
			f.before = func(sql string) string {
				if strings.HasPrefix(sql, "WITH locks AS ") {
					f.marked, f.table = [][]string{{"30000", "t", "5"}}, nil
				}
				return ""
			}
		})
		effect, err := locker.Break(t.Context(), l, "a", 81, locker.Breach{Reason: "hangs"})
		if effect != (locker.Effect{}) || err != nil {
			t.Errorf("Break = %+v, %v, want that the lock is free", effect, err)
		}
		closeLocker(t, l)
	})
}

// heldBy5 has process 5 hold the lock a by a lease with the token 81.
func heldBy5(f *fake) {
	f.change(func(f *fake) { f.table = table(held{5, tried, "81"}) })
}
