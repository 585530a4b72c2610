//go:build unix

package pg

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// What is done to the sequence where it is doesn't change where it comes from. Lockers that were
// open all the time notice, and so does one that is opened later, with others or as the only one.
func TestPostgresSetBack(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	node := s.nodes[0]
	step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.open(t)), step.LockName(t)) // what is made on first use is there
	for _, tc := range []struct {
		what   string
		before string // a command that takes a copy, and one that brings it back
		after  string
	}{
		{"by setval", "true", `psql --command="select setval('locker.locker_token', 7)" ` + pgDatabase},
		{"by setval, a little", `psql --no-align --tuples-only --command="select last_value from locker.locker_token" ` + pgDatabase + " > /tmp/value",
			`psql --command="select setval('locker.locker_token', $(cat /tmp/value))" ` + pgDatabase},
		{"by a dump that is fed to its own database", "pg_dump --file=/tmp/plain.sql " + pgDatabase, "psql --file=/tmp/plain.sql " + pgDatabase},
		{"by a restore of data alone, over the row that is there", pgDumped, "! pg_restore --data-only --dbname=" + pgDatabase + " /tmp/dump"},
		{"by a restore of data alone, into the emptied table", pgDumped, `psql --command="truncate locker.locker_epoch, locker.locker_lease" ` + pgDatabase +
			"; pg_restore --data-only --exit-on-error --dbname=" + pgDatabase + " /tmp/dump"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			l, other := s.open(t), s.open(t)
			spend(t, 50, l, other)
			node.shell(t, tc.before)
			last := spend(t, 200, l)
			set := func() {
				t.Helper()
				value := admin[int64](t, s, "select last_value from locker.locker_token")
				node.shell(t, tc.after)
				if now := admin[int64](t, s, "select last_value from locker.locker_token"); now >= value {
					t.Fatalf("the sequence is at %d, and was at %d before: this test proves nothing", now, value)
				}
			}
			set()
			for who, l := range []locker.Locker{l, other, step.CloseAtEnd(t, s.open(t))} { // the first has had the last one
				token := step.FreeWithin(t, itest.ShortWait, l, step.LockName(t))
				if token <= last {
					t.Errorf("Locker %d gives out token %v after %v, want a larger one", who, token, last)
				}
				last = max(last, token)
			}
			set()
			waited := step.Acquire(t, other, step.LockName(t))
			waiter := step.StartAcquire(t, l, waited.Name())
			step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, waited.Name(), 1) })
			step.Release(t, waited)
			lease := waiter.Granted(t, itest.ShortWait)
			last = max(last, lease.Token())
			step.Release(t, lease)
			if err := errors.Join(l.Close(), other.Close()); err != nil {
				t.Fatal(err)
			}
			s.clear(t)
			step.Eventually(t, itest.ShortWait, func() error {
				if n := s.sessions(t); n > 0 {
					return fmt.Errorf("%d sessions of Lockers are still there", n)
				}
				return nil
			})
			set()
			later(t, last, step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.open(t)), step.LockName(t)))
		})
	}
}

// A waiter's value is taken when it is granted the lock. By then its Locker may have seen larger
// ones than when the wait began, and the sequence may have been set back.
func TestPostgresSetBackDuringAWait(t *testing.T) {
	itest.NeedServers(t)
	s := Standalone(t)
	for _, ttl := range []time.Duration{2 * time.Second, 10 * time.Minute} { // the grant is proved, and isn't
		t.Run(ttl.String(), func(t *testing.T) {
			other, l, name := step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t)), step.LockName(t)
			lease := step.Acquire(t, other, name)
			waiter := step.StartAcquire(t, l, name, locker.WithTTL(ttl))
			step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 1) })
			before := admin[int64](t, s, "select last_value from locker.locker_token")
			last := spend(t, 300, l)
			admin[int64](t, s, "select setval('locker.locker_token', $1)", before+10)
			step.Release(t, lease)
			lease = waiter.Granted(t, itest.ShortWait)
			later(t, last, lease.Token())
			step.Release(t, lease)
		})
	}
}
