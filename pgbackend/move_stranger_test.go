package pgbackend_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// If somebody uses the same advisory key, the gate stays closed, the lease goes on, and the move is
// over when they have given it back.
func TestMoveBesideAStranger(t *testing.T) {
	const ttl = time.Second
	for _, releases := range []string{"after", "before"} {
		t.Run("the lease is released "+releases+" the stranger has left", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stranger := new(fakeConn)
				f, l, lease := moving(t, ttl, func(f *fake, step int) string {
					if step == 4 {
						f.share(stranger, keyOfA)
					}
					return ""
				})
				time.Sleep(10 * ttl)
				if err := lease.Err(); err != nil {
					t.Errorf("Err = %v, want nil", err)
				}
				f.change(func(f *fake) {
					if exclusive, inSharedMode := f.third(keyOfA); exclusive || inSharedMode || f.gates[keyOfA] != f.waited {
						t.Errorf("a third session is granted the lock exclusively: %v, in shared mode: %v, and the gate is closed: %v",
							exclusive, inSharedMode, f.gates[keyOfA] == f.waited)
					}
				})
				if n := f.statements("SELECT CASE WHEN pg_try_advisory_lock("); n < 10 {
					t.Errorf("step 4 was taken %d times in 10 TTLs, want once in each renewal", n)
				}
				leave := func() { f.change(func(f *fake) { f.unshare(stranger, keyOfA) }) }
				if releases == "after" {
					leave()
					time.Sleep(ttl)
					f.change(func(f *fake) {
						if f.locks[keyOfA] != f.sharedConn() || len(f.shared) > 0 || len(f.gates) > 0 {
							t.Error("the stranger has left, and the lease has not moved")
						}
						f.kill(f.waited)
					})
					time.Sleep(2 * ttl)
				}
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release = %v, want nil", err)
				}
				if releases == "before" {
					leave()
				}
				f.isFree(t)
				if err := l.Close(); err != nil {
					t.Errorf("Close = %v, want nil", err)
				}
			})
		})
	}
}
