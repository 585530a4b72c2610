package pgbackend_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
)

// A lease moves to the connection that it should have moved to before, which was silent and is heard
// again. What was given back there meanwhile isn't what the lease has there now.
func TestMoveBackToAConnectionThatWasSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := openPiped(t)
		defer closeLocker(t, l)
		hold := func(name string) locker.Lease {
			return acquireAs(t, l, name, locker.WithTTL(10*time.Minute), locker.WithoutRenewal())
		}
		onceAnswered := func(what string, matches func(sql string) bool) {
			f.change(func(f *fake) {
				f.late = 20 * time.Second
				f.before = func(sql string) string {
					if !matches(sql) {
						return ""
					}
					f.before = nil
					return what
				}
			})
		}
		hold("x") // so that the connection isn't given up
		f.somebodyHas("a")
		lease := hold("a")
		onceAnswered("late", fakeStep2.MatchString)
		renew := func() {
			if err := lease.Renew(t.Context()); err != nil {
				t.Fatalf("Renew = %v, want nil", err)
			}
		}
		renew()
		hold("y") // on another connection, where the lease moves to when the first one has given it back
		renew()
		time.Sleep(20 * time.Second)
		asked := askedFor("z")
		onceAnswered("late", func(sql string) bool { return sql == asked })
		if _, err := locker.TryAcquire(t.Context(), l, "z", locker.WithTTL(10*time.Minute)); !errors.Is(err, locker.ErrNoAnswer) {
			t.Fatalf("TryAcquire = %v, want ErrNoAnswer", err)
		}
		onceAnswered("silence", fakeStep3.MatchString)
		inSharedMode := func() (n int) {
			f.change(func(f *fake) { n = len(f.shared[keyOfA]) })
			return n
		}
		if err := lease.Renew(t.Context()); err == nil || inSharedMode() != 2 {
			t.Fatalf("Renew = %v, and %d connections have the lock in shared mode, want both: this test proves nothing", err, inSharedMode())
		}
		_ = lease.Release(t.Context())
		time.Sleep(time.Minute)
		if n := inSharedMode(); n != 0 {
			t.Errorf("%d connections have the lock in shared mode after its release, want none", n)
		}
	})
}
