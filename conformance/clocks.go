package conformance

import (
	"errors"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/conformance/step"
)

// These cases need a process whose clock is wrong. The Lockers of a process share a clock, and so do
// all processes of a machine.

// skew is how far the clock of a process is wrong. It is longer than every TTL of the suite.
const skew = time.Hour

// tokensBetweenClocks lets the lock go from a process whose clock is ahead to one whose clock is
// right, to one whose clock is behind, and back.
func tokensBetweenClocks(t T, h *Harness) {
	l, name := h.OpenLocker(t), step.LockName(t)
	ahead, behind := h.Skewed(t, skew), h.Skewed(t, -skew)
	var last locker.Token
	rises := func(token locker.Token) {
		t.Helper()
		step.WantRising(t, last, token)
		last = token
	}
	for range 2 {
		rises(briefly(t, ahead, name))
		rises(step.WantFree(t, l, name))
		rises(briefly(t, behind, name))
	}
}

// briefly has p acquire and release a lock that is free, and returns the token.
func briefly(t T, p process.Process, name string) locker.Token {
	t.Helper()
	token := process.MustDo(t, p, process.Command{Verb: process.Acquire, Name: name}).Token
	process.MustDo(t, p, process.Command{Verb: process.Release, Name: name})
	return token
}

// leasesBetweenClocks has each of two clocks hold the lock while the other one waits for it, for
// longer than the TTL. Then the process is killed, and the lock becomes free in time.
func leasesBetweenClocks(t T, h *Harness) {
	for _, by := range []time.Duration{skew, -skew} {
		l, name := h.OpenLocker(t), step.LockName(t)
		p, next := h.Skewed(t, by), h.Skewed(t, by)
		process.MustDo(t, p, process.Command{Verb: process.Acquire, Name: name, TTL: h.TTL})
		waiter := step.StartAcquire(t, l, name, h.ttl()...)
		step.Pass(t, 2*h.TTL)
		waiter.WantPending(t)
		process.MustDo(t, p, process.Command{Verb: process.Look, Name: name})
		process.MustDo(t, p, process.Command{Verb: process.Release, Name: name})

		lease := waiter.Granted(t, h.HandOffLimit())
		process.Begin(t, next, process.Command{Verb: process.Acquire, Name: name, TTL: h.TTL})
		step.Pass(t, 2*h.TTL)
		if err := lease.Err(); err != nil {
			t.Fatalf("Err = %v, want nil: a process whose clock is wrong by %v waits for the lock", err, by)
		}
		step.Release(t, lease)
		step.Eventually(t, h.HandOffLimit(), func() error { return isRefused(t, l, name) }) // the process has the lock
		next.Kill()
		step.FreeWithin(t, h.DeathLimit(), l, name)
	}
}

// isRefused returns nil if l is refused the lock because somebody else has it, or waits for it.
func isRefused(t T, l locker.Locker, name string) error {
	t.Helper()
	lease, err := step.Try(t, l, name)
	switch {
	case errors.Is(err, locker.ErrHeld):
		return nil
	case err != nil:
		return err
	}
	step.Release(t, lease)
	return errors.New("nobody has the lock yet")
}
