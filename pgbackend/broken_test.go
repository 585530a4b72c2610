package pgbackend_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// takeAway has an operator write a breach into the row of a lease.
func (f *fake) takeAway(name, breach string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, r := range f.leases {
		if r.name == name {
			r.breach = breach
			f.leases[id] = r
		}
	}
}

// A lease whose row has a breach is lost with its next renewal, and no other lease is.
func TestABrokenLeaseIsLost(t *testing.T) {
	for what, text := range map[string]string{
		"as Break writes it": driver.FormatBreach(locker.Breach{By: "bob", Reason: "hangs"}),
		"of any text":        "hangs",
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l := labelled(t)
				victim, other := acquireAs(t, l, "a"), acquireAs(t, l, "b")
				time.Sleep(renewed)
				f.takeAway("a", text)
				time.Sleep(labelTTL / 3)
				var breach *locker.Breach
				if err := victim.Err(); !errors.Is(err, locker.ErrLost) || !errors.As(err, &breach) || breach.Reason != "hangs" {
					t.Errorf("Err = %v, want a loss with the breach", err)
				}
				if err := other.Err(); err != nil {
					t.Errorf("Err of the other lease = %v", err)
				}
				time.Sleep(late)
				if rows := f.written(); len(rows) != 1 || rows[0].name != "b" {
					t.Errorf("the rows %+v exist, want that of the other lease alone", rows)
				}
				releaseNow(t, acquireAs(t, l, "a"), other)
				closeLocker(t, l)
			})
		})
	}
}

// A breach with the token of an earlier lease takes nothing away.
func TestABreachOfAnotherTokenIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := labelled(t)
		lease := acquireAs(t, l, "a")
		time.Sleep(renewed)
		f.takeAway("a", "hangs")
		f.change(func(f *fake) {
			for id, r := range f.leases {
				r.token = fmt.Sprint(int64(lease.Token()) - 1)
				f.leases[id] = r
			}
		})
		time.Sleep(labelTTL)
		if err := lease.Err(); err != nil {
			t.Errorf("Err = %v", err)
		}
		releaseNow(t, lease)
		closeLocker(t, l)
	})
}

// A look that fails is no failure of the renewal.
func TestALookThatFails(t *testing.T) {
	for answer, most := range map[string]int{"55P03 canceling statement due to lock timeout": 6, "late": 6, "42501 permission denied": 1} {
		t.Run(answer, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l := labelled(t)
				f.change(func(f *fake) {
					f.late = labelTTL / 12
					f.before = func(sql string) string {
						if strings.Contains(sql, "breach IS NOT NULL") {
							return answer
						}
						return ""
					}
				})
				lease := acquireAs(t, l, "a")
				time.Sleep(2*labelTTL + time.Second)
				if err := lease.Err(); err != nil {
					t.Errorf("Err = %v", err)
				}
				if n := f.statements("SELECT key, presence, token"); n < 1 || n > most {
					t.Errorf("%d looks, want 1 to %d", n, most)
				}
				releaseNow(t, lease)
				closeLocker(t, l)
			})
		})
	}
}

// The row of a lease is gone before its connection takes the lock for another one: where it can't be
// removed, another connection takes it.
func TestTheRowIsGoneBeforeTheNextLease(t *testing.T) {
	for what, answer := range map[string]string{
		"removed":           "",
		"locked":            "55P03 canceling statement due to lock timeout",
		"no longer allowed": "42501 permission denied",
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l := labelled(t)
				first := acquireAs(t, l, "a")
				time.Sleep(renewed)
				before := f.written()
				if len(before) != 1 {
					t.Fatalf("the rows are %+v, want one", before)
				}
				f.change(func(f *fake) {
					f.before = func(sql string) string {
						if strings.HasPrefix(sql, "DELETE FROM") {
							return answer
						}
						return ""
					}
				})
				releaseNow(t, first)
				next := acquireAs(t, l, "a")
				for _, r := range f.written() {
					if f.holds(r) {
						t.Errorf("the row %+v exists, and its session has the lock for the token %d", r, next.Token())
					}
				}
				time.Sleep(renewed)
				for _, r := range f.written() {
					if f.holds(r) && r.token != fmt.Sprint(int64(next.Token())) {
						t.Errorf("the row %+v exists, and its session has the lock for the token %d", r, next.Token())
					}
				}
				releaseNow(t, next)
				closeLocker(t, l)
			})
		})
	}
}
