package pgbackend_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

const (
	labelTTL = 30 * time.Second
	renewed  = labelTTL/3 + time.Second // after so long each lease has been renewed once
	late     = 200 * time.Millisecond   // in that time what is done in the background has been done
)

// labelled opens a Locker on a server that has the table of leases.
func labelled(t *testing.T, opts ...pgbackend.Option) (*fake, *pgbackend.Locker) {
	t.Helper()
	f, config := piped(t)
	f.leases = make(map[string]fakeRow)
	l, err := pgbackend.New(t.Context(), config, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return f, l
}

func closeLocker(t *testing.T, l locker.Locker) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	synctest.Wait()
}

func acquireAs(t *testing.T, l locker.Locker, name string, opts ...locker.Option) locker.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), name, opts...)
	if err != nil {
		t.Fatalf("Acquire(%q) = %v", name, err)
	}
	return lease
}

func releaseNow(t *testing.T, leases ...locker.Lease) {
	t.Helper()
	for _, lease := range leases {
		if err := lease.Release(t.Context()); err != nil {
			t.Fatalf("Release of %q = %v", lease.Name(), err)
		}
	}
}

// A lease that is shorter than a third of its TTL costs nothing.
func TestShortLeasesAreNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := labelled(t)
		for range 3 {
			lease := acquireAs(t, l, "a")
			time.Sleep(labelTTL / 6)
			if err := lease.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			releaseNow(t, lease)
		}
		time.Sleep(2 * renewed)
		closeLocker(t, l)
		if n := f.statements("locker_lease") - f.statements("SELECT o.sequence"); n != 0 {
			t.Errorf("%d statements about the table of leases, want none", n)
		}
	})
}

// Leases are written together after their first renewal, once, and removed together after their
// release.
func TestLeasesAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := labelled(t)
		const n = 250
		leases := make([]locker.Lease, n)
		for i := range leases {
			leases[i] = acquireAs(t, l, fmt.Sprint("n", i), locker.WithHolder(fmt.Sprint("h", i)))
		}
		silent := acquireAs(t, l, "silent", locker.WithHolder("-"))
		time.Sleep(renewed)
		if rows := f.written(); !slices.ContainsFunc(rows, func(r fakeRow) bool { return r.name == "silent" && r.token != "" && r.holder == "" }) {
			t.Errorf("the rows %+v have none of a holder that says nothing", rows)
		}
		releaseNow(t, silent)
		time.Sleep(late)
		rows := f.written()
		if len(rows) != n {
			t.Fatalf("%d rows are written, want %d", len(rows), n)
		}
		for _, r := range rows {
			var i int
			if _, err := fmt.Sscanf(r.name, "n%d", &i); err != nil || r.holder != fmt.Sprint("h", i) || r.token != fmt.Sprint(int64(leases[i].Token())) {
				t.Errorf("the row %+v says something else than lease %d, token %d", r, i, leases[i].Token())
			}
		}
		time.Sleep(3 * renewed)
		if w, s := f.statements("INSERT INTO"), f.statements("interval '1 day'"); w > 5 || s != 1 {
			t.Errorf("%d statements write %d rows, and %d remove old ones, want 5 at most, and 1", w, n, s)
		}
		releaseNow(t, leases...)
		time.Sleep(late)
		if rows := f.written(); len(rows) != 0 {
			t.Errorf("%d rows exist after the release", len(rows))
		}
		if d := f.statements("DELETE FROM") - 2; d < 3 || d > 5 {
			t.Errorf("%d statements remove %d rows, want 3, or few more", d, n)
		}
		closeLocker(t, l)
	})
}

// A wait has a row without a token. The lease has the row of the connection to which it has moved.
func TestAMovedLeaseHasItsRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := labelled(t)
		f.somebodyHas("a")
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
		granted := make(chan locker.Lease)
		go func() { granted <- acquireAs(t, l, "a", locker.WithHolder("me")) }()
		time.Sleep(renewed)
		place := f.written()
		if len(place) != 1 || place[0].token != "" || place[0].holder != "me" || place[0].name != "a" {
			t.Fatalf("the rows are %+v, want one of who waits", place)
		}
		close(waits)
		lease := <-granted
		time.Sleep(renewed)
		rows := f.written()
		if len(rows) != 1 || rows[0].token == "" || rows[0].holder != "me" || rows[0].presence == place[0].presence {
			t.Errorf("the rows are %+v, want one of the shared connection, and not that of the waiter's: %+v", rows, place)
		}
		releaseNow(t, lease)
		time.Sleep(late)
		if rows := f.written(); len(rows) != 0 {
			t.Errorf("the rows %+v exist after the release", rows)
		}
		closeLocker(t, l)
	})
}

// Without the table, without permissions, and when statements fail, the leases go on, and nothing is
// tried again and again.
func TestLeasesWithoutTheTable(t *testing.T) {
	for what, c := range map[string]struct {
		answer string
		most   int // statements in two minutes
	}{
		"missing":       {"42P01 relation does not exist", 1},
		"not permitted": {"42501 permission denied", 1},
		"locked":        {"55P03 canceling statement due to lock timeout", 3},
		"no answer":     {"swallow", 3},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l := labelled(t)
				f.change(func(f *fake) {
					f.before = func(sql string) string {
						if strings.HasPrefix(sql, "INSERT INTO") && strings.Contains(sql, "locker_lease") {
							return c.answer
						}
						return ""
					}
				})
				lease := acquireAs(t, l, "a")
				if what == "no answer" {
					time.Sleep(labelTTL) // what is never answered ends the connection in the end
				} else {
					time.Sleep(2 * time.Minute)
					if err := lease.Err(); err != nil {
						t.Errorf("Err = %v", err)
					}
					releaseNow(t, lease)
				}
				if n := f.statements("INSERT INTO"); n < 1 || n > c.most {
					t.Errorf("%d statements that write, want 1 to %d", n, c.most)
				}
				_ = l.Close()
				synctest.Wait()
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f, config := piped(t)
		l, err := pgbackend.New(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		lease := acquireAs(t, l, "a")
		time.Sleep(2 * renewed)
		releaseNow(t, lease)
		closeLocker(t, l)
		if n := f.statements("INSERT INTO"); n != 0 {
			t.Errorf("%d statements that write into a table that was missing from the beginning", n)
		}
	})
}

// A statement about rows that isn't answered keeps neither a renewal nor a release nor Close from
// being sent, and the next one is not sent before it is answered.
func TestRowsAreInNobodysWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := labelled(t)
		lease, other := acquireAs(t, l, "a"), acquireAs(t, l, "b")
		f.change(func(f *fake) {
			f.late = labelTTL / 6 // longer than such a statement is waited for
			f.before = func(sql string) string {
				if strings.HasPrefix(sql, "INSERT INTO") {
					return "late"
				}
				return ""
			}
		})
		time.Sleep(renewed)
		before := f.statements("SELECT pg_backend_pid()")
		ctx, cancel := context.WithTimeout(t.Context(), labelTTL/2)
		defer cancel()
		if err := lease.Renew(ctx); err != nil {
			t.Errorf("Renew = %v", err)
		}
		if n := f.statements("SELECT pg_backend_pid()") - before; n != 1 {
			t.Errorf("%d renewals were sent, want 1", n)
		}
		releaseNow(t, lease)
		time.Sleep(labelTTL)
		if n := f.statements("INSERT INTO"); n != 1 {
			t.Errorf("%d statements that write, want 1: there is a pause after one that was late", n)
		}
		releaseNow(t, other)
		closeLocker(t, l)
	})
}

// A connection that doesn't answer a statement about rows, or refuses it, is in the way of its own rows
// alone: the rows of other connections are written and removed.
func TestFailureOfOneConnectionAboutRows(t *testing.T) {
	for _, what := range []string{"silence", "55P03 canceling statement due to lock timeout"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l := labelled(t)
				defer closeLocker(t, l)
				acquireAs(t, l, "x")
				f.change(func(f *fake) {
					f.before = func(sql string) string {
						if !strings.HasPrefix(sql, "INSERT INTO") {
							return ""
						}
						f.before = nil
						return what
					}
				})
				time.Sleep(renewed + 3*time.Second)
				other := acquireAs(t, l, "y", locker.WithTTL(labelTTL+time.Second))
				time.Sleep(renewed)
				if rows := f.written(); len(rows) != 1 || rows[0].name != "y" {
					t.Errorf("the rows %+v are written, want one of y", rows)
				}
				releaseNow(t, other)
				time.Sleep(late)
				if rows := f.written(); len(rows) != 0 {
					t.Errorf("the rows %+v exist after the release", rows)
				}
			})
		})
	}
}

// Close removes the rows, of leases and of what was released just before.
func TestCloseRemovesRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := labelled(t)
		for i := range 3 {
			acquireAs(t, l, fmt.Sprint(i))
		}
		time.Sleep(renewed)
		if n := len(f.written()); n != 3 {
			t.Fatalf("%d rows are written, want 3", n)
		}
		closeLocker(t, l)
		if rows := f.written(); len(rows) != 0 {
			t.Errorf("the rows %+v exist after Close", rows)
		}
	})
}

func TestWithoutLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := labelled(t, pgbackend.WithoutLabels())
		lease := acquireAs(t, l, "a")
		time.Sleep(2 * renewed)
		releaseNow(t, lease)
		closeLocker(t, l)
		if n := f.statements("INSERT INTO"); n != 0 {
			t.Errorf("%d statements that write", n)
		}
	})
}
