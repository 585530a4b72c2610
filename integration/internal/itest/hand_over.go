//go:build unix

package itest

import (
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// HandOver acquires a lock, renews it and hands it to a waiter. That needs every kind of connection
// that a client has.
func HandOver(t *testing.T, l, other locker.Locker, name string) {
	t.Helper()
	lease := step.Acquire(t, l, name)
	next := step.StartAcquire(t, other, name)
	step.FreeWithin(t, 0, l, name+"-")
	if err := lease.Renew(t.Context()); err != nil {
		t.Errorf("Renew = %v, want nil", err)
	}
	next.WantPending(t)
	step.Release(t, lease)
	step.Release(t, next.Granted(t, ShortWait))
}
