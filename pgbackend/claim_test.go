package pgbackend_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
)

// Break takes the token in a row for that of the lease that has the lock, if the row's session has
// it. These are the ways in which that could become untrue.

// wantOwnRows fails the test if there is a row whose session has the lock for another token.
func wantOwnRows(t *testing.T, f *fake, lease locker.Lease) {
	t.Helper()
	for _, r := range f.written() {
		if r.name == lease.Name() && r.token != "" && f.holds(r) && r.token != fmt.Sprint(int64(lease.Token())) {
			t.Errorf("the row %+v exists, and its session has the lock for the token %d", r, lease.Token())
		}
	}
}

// The task has taken a row to be written, and is busy with others, while the lease is released and
// the next one begins.
func TestARowIsNotWrittenAfterItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := labelled(t)
		x, y := acquireAs(t, l, "x"), acquireAs(t, l, "y")
		time.Sleep(renewed - labelTTL/5)
		first := acquireAs(t, l, "a", locker.WithTTL(labelTTL-time.Second)) // on another connection
		time.Sleep(labelTTL / 5)
		if n := len(f.written()); n != 2 {
			t.Fatalf("%d rows are written, want 2", n)
		}
		releaseNow(t, y)
		time.Sleep(late / 4) // the task pauses, so the next step has all of what follows
		releaseNow(t, x)
		if err := first.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		var isSlow atomic.Bool
		f.change(func(f *fake) {
			f.late = time.Second
			f.before = func(sql string) string {
				if strings.HasPrefix(sql, "DELETE FROM") && isSlow.CompareAndSwap(false, true) {
					return "late"
				}
				return ""
			}
		})
		time.Sleep(late)
		if !isSlow.Load() || f.statements("INSERT INTO") != 1 {
			t.Fatalf("the task isn't where it should be: %d rows", len(f.written()))
		}
		releaseNow(t, first)
		next := acquireAs(t, l, "a", locker.WithTTL(labelTTL-time.Second))
		time.Sleep(2 * time.Second)
		wantOwnRows(t, f, next)
		releaseNow(t, next)
		closeLocker(t, l)
	})
}

// An acquisition whose caller leaves while the row of the last lease is removed takes nothing, and
// doesn't keep other rows from being written.
func TestACallerLeavesWhileARowIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := labelled(t)
		first := acquireAs(t, l, "a")
		time.Sleep(renewed)
		var isSlow atomic.Bool
		f.change(func(f *fake) {
			f.late = time.Second
			f.before = func(sql string) string {
				if strings.HasPrefix(sql, "DELETE FROM") && isSlow.CompareAndSwap(true, false) {
					return "late"
				}
				return ""
			}
		})
		b := acquireAs(t, l, "b") // so that the task pauses when the first lease is released
		releaseNow(t, b)
		isSlow.Store(true)
		releaseNow(t, first)
		ctx, cancel := context.WithTimeout(t.Context(), late)
		defer cancel()
		if lease, err := l.Acquire(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Acquire = %v, %v, want the end of its context", lease, err)
		}
		time.Sleep(2 * time.Second)
		next, other := acquireAs(t, l, "a"), acquireAs(t, l, "c")
		time.Sleep(renewed)
		wantOwnRows(t, f, next)
		if n := len(f.written()); n != 2 {
			t.Errorf("%d rows are written, want 2: %+v", n, f.written())
		}
		releaseNow(t, next, other)
		closeLocker(t, l)
	})
}
