package pgbackend_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/pgbackend"
)

// refusesRows has the server refuse statements about the table of leases that begin with a text, and ends
// that when the function is called which it returns.
func refusesRows(f *fake, begin string) (ends func()) {
	f.change(func(f *fake) {
		f.before = func(sql string) string {
			if strings.HasPrefix(sql, begin) && strings.Contains(sql, "locker_lease") {
				return "55P03 canceling statement due to lock timeout"
			}
			return ""
		}
	})
	return func() { f.change(func(f *fake) { f.before = nil }) }
}

// During a pause nobody looks again and again at the rows that are to be removed. After it they are removed.
func TestRowsWaitForTheEndOfAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := labelled(t)
		defer closeLocker(t, l)
		lease := acquireAs(t, l, "a")
		acquireAs(t, l, "b")
		time.Sleep(renewed)
		ends := refusesRows(f, "DELETE FROM")
		releaseNow(t, lease)
		time.Sleep(late)
		if pause := pgbackend.StepOfRows(t.Context(), l); pause != time.Second {
			t.Errorf("the next step comes after %v, want 1 s", pause)
		}
		ends()
		time.Sleep(time.Minute)
		if rows := f.written(); len(rows) != 1 || rows[0].name != "b" {
			t.Errorf("the rows %+v exist after the pause, want the row of b", rows)
		}
	})
}

// The row of a wait is written on the shared connection. So it is the pause of that one that counts.
func TestRowOfAWaitDuringAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := labelled(t)
		defer closeLocker(t, l)
		acquireAs(t, l, "a")
		ends := refusesRows(f, "INSERT INTO")
		time.Sleep(renewed)
		ends()
		f.somebodyHas("b")
		waits := make(chan bool)
		f.change(func(f *fake) {
			f.before = func(sql string) string {
				if fakeWait.MatchString(sql) && strings.Contains(sql, "pg_advisory_lock(") {
					f.mu.Unlock()
					<-waits
					f.mu.Lock()
				}
				return ""
			}
		})
		granted := make(chan bool)
		go func() { acquireAs(t, l, "b"); close(granted) }()
		for began := time.Now(); time.Since(began) < labelTTL; { // the wait is renewed twice or more
			time.Sleep(50 * time.Millisecond) // the task ends 100 ms after it has begun, or later
			if pgbackend.RunsRows(l) {
				t.Error("rows are to be written during the pause")
				break
			}
		}
		time.Sleep(labelTTL * 3 / 2) // until the pause is over, and the wait was renewed
		if rows := f.written(); len(rows) != 2 {
			t.Errorf("the rows are %+v, want the rows of the lease and of the wait", rows)
		}
		close(waits)
		<-granted
	})
}
