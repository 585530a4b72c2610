// Package step has the steps that the cases of a suite are made of: get a lock, expect that it is
// held or free, wait for a loss, let time pass. The suite of package conformance uses them, and so
// may the author of a backend in the cases of a pack:
//
//	func staleReleaseFreesNothing(t conformance.T, h *conformance.Harness) {
//		l, other, third, name := h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
//		stale := step.Acquire(t, l, name, locker.WithTTL(h.TTL), locker.WithoutRenewal())
//		waiter := step.StartAcquire(t, other, name)
//		step.LostWithin(t, h.ExpiryLimit(), stale)
//		successor := waiter.Granted(t, h.ExpiryLimit())
//		_ = stale.Release(t.Context())
//		step.WantLive(t, successor, third)
//	}
//
// Each step is bounded in time, so that a broken Locker fails a case instead of hanging it. A step
// that fails ends the case with t.Fatalf, so call it in the goroutine of the case; [Race] and
// [Contend] run functions in other goroutines, which return errors instead. A duration that a step
// takes is the longest time that it waits.
package step
