package pgbackend_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
)

// If step 4 fails, nobody knows in which mode the shared session has the lock. The lease goes on,
// on both, and its release frees all of it.
func TestMoveThatCantBeDecided(t *testing.T) {
	const ttl = time.Second
	for _, executed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f, l, lease := moving(t, ttl, func(f *fake, step int) string {
				if step != 4 {
					return ""
				}
				if executed {
					f.lock(f.sharedConn(), keyOfA)
				}
				return "57014 canceling statement due to user request"
			})
			time.Sleep(5 * ttl)
			if err := lease.Err(); err != nil {
				t.Errorf("Err = %v, want nil", err)
			}
			f.change(func(f *fake) {
				if exclusive, inSharedMode := f.third(keyOfA); exclusive || inSharedMode {
					t.Errorf("a third session is granted the lock exclusively: %v, in shared mode: %v, want neither", exclusive, inSharedMode)
				}
			})
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("Release = %v, want nil", err)
			}
			f.isFree(t)
			if err := l.Close(); err != nil {
				t.Errorf("Close = %v, want nil", err)
			}
		})
	}
}

// While a lease is attached to both sessions, the end of either is known at once, and its base is
// the older one of theirs: the silence of either ends it in time.
func TestMoveThatStopsBetweenItsSessions(t *testing.T) {
	const ttl = time.Second
	for _, which := range []string{"the waiter's", "the shared"} {
		for _, what := range []string{"falls silent", "ends"} {
			t.Run(which+" session "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					stranger := new(fakeConn)
					f, l, lease := moving(t, ttl, func(f *fake, step int) string {
						if step == 4 {
							f.share(stranger, keyOfA) // so that both are asked from now on
						}
						return ""
					})
					time.Sleep(3*ttl + ttl/10)
					since := time.Now()
					f.change(func(f *fake) {
						session := f.waited
						if which == "the shared" {
							session = f.sharedConn()
						}
						if what == "ends" {
							f.kill(session)
						} else {
							f.mute = session
						}
					})
					if what == "falls silent" {
						time.Sleep(ttl)
					}
					synctest.Wait()
					if err := lease.Err(); !errors.Is(err, locker.ErrLost) || lease.Deadline().After(since.Add(ttl)) {
						t.Errorf("%v later Err = %v, and the deadline was after %v, want ErrLost at once, or at a deadline within a TTL",
							time.Since(since), err, lease.Deadline().Sub(since))
					}
					_ = lease.Release(t.Context())
					_ = l.Close()
				})
			})
		}
	}
}
