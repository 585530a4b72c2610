package pgbackend_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// A lease on a waiter's connection is marked, and ends before the next look. The next holder has no
// row yet, so nobody can say whether it is the same lease, which has moved. If that goes on for
// longer than the call, the error says that the lease is marked.
func TestBreakOfALeaseThatEndsUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := labelled(t)
		k := pgbackend.KeyOf("locker", "locker:", "a")
		holder := func(pid int) [][]string {
			presence := pgbackend.Key(int64(pgbackend.OwnSpace)<<32 | 1<<31 | int64(pid))
			return [][]string{seen(entry(presence, 2, pid, true, ""), "", "0"), seen(entry(k, 1, pid, true, ""), "", "0")}
		}
		f.change(func(f *fake) {
			f.table = append(holder(5), leaseRow(k, 1<<31+5, "81", "5000000", "30000", "a", "1795221171926 me"))
			f.before = func(sql string) string {
				if strings.HasPrefix(sql, "WITH locks AS ") && f.marked == nil {
					f.marked, f.table = [][]string{{"30000", "t"}}, holder(6)
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
