package conformance

import (
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// Cases F48.1 to F48.3: from which moment a lease counts its deadline. Err reads the clock, so it is asked
// at once. Done is closed by a timer, which a busy machine may let run late.

// deadlineFromRequest delays the replies, and looks at the lease at the moment at which another
// Locker is granted the lock. Nothing is renewed in the background: a renewal that the service
// executes and whose reply is lost would hide the mistake.
func deadlineFromRequest(t T, h *Harness) {
	for _, renewed := range []bool{false, true} {
		l, link := h.OpenLinked(t)
		other := h.OpenLocker(t)
		step.WantFree(t, other, step.LockName(t)) // and connects
		var lease locker.Lease
		var sent time.Time
		lateRounds(t, h, link, func(late func()) (err error) {
			step.WantFree(t, l, step.LockName(t)) // and connects
			name := step.LockName(t)
			if renewed {
				lease = step.Acquire(t, l, name, h.ttl(locker.WithoutRenewal())...)
				late()
				sent = time.Now()
				return step.Renew(t, lease)
			}
			late()
			sent = time.Now()
			lease, err = step.Try(t, l, name, h.ttl(locker.WithoutRenewal())...)
			return err
		})
		link.Cut() // so that the service can't notify the holder
		next := step.AcquireWithin(t, h.ExpiryLimit(), other, lease.Name())
		took, err, done := time.Since(sent), lease.Err(), step.WaitClosed(lease.Done(), h.Slack)
		early := took < h.TTL-h.TTL/100
		switch {
		case early:
			t.Errorf("the service has ended the lease early: another got the lock %v after it was acquired or "+
				"renewed, and the TTL is %v", took, h.TTL)
		case err == nil:
			t.Errorf("another has the lock %v after it was acquired or renewed, and Err = nil with the deadline %v "+
				"away: the lease must count its TTL from the request", took, time.Until(lease.Deadline()))
		}
		if !done && !early {
			t.Errorf("another has the lock, and Done is open")
		}
		step.Release(t, next)
		link.Heal()
	}
}

// deadlineAfterWait grants the lock to a waiter whose place was refreshed a fifth of the TTL ago,
// which is less than the time between two renewals. It cuts the waiter off before its next one.
func deadlineAfterWait(t T, h *Harness) {
	holder, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	l, link := h.OpenLinked(t)
	step.WantFree(t, other, name) // and connects
	first := step.Acquire(t, holder, name)
	waiter := step.StartAcquire(t, l, name, h.ttl()...)
	h.WaitQueued(t, name, 1)
	step.Pass(t, h.TTL/5) // the refresh of the place grows old
	step.Release(t, first)
	lease := waiter.Granted(t, h.HandOffLimit())
	link.Cut()
	next := step.AcquireWithin(t, h.ExpiryLimit(), other, name)
	if err := lease.Err(); err == nil {
		t.Errorf("another has the lock, and Err = nil with the deadline %v away", time.Until(lease.Deadline()))
	}
	if !step.WaitClosed(lease.Done(), h.Slack) {
		t.Errorf("another has the lock, and Done is open")
	}
	step.Release(t, next)
}

// lateReplyShortens looks at the deadline alone, so it needs no second holder. On a busy machine one
// look may come too late to see the mistake.
func lateReplyShortens(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	waited := false
	for range 3 {
		lateRounds(t, h, link, func(late func()) error {
			hasWaited, err := lateReply(t, h, l, link, late)
			waited = waited || hasWaited
			return err
		})
	}
	if !waited {
		t.Errorf("no reply was late: the Link of the hook Linked must delay replies by %v, or nothing is proved", lateBy(h))
	}
}

// lateReply delays the replies to an acquisition and a renewal. The TTL in force may be longer than
// the one asked for: undisturbed renewals show it. waited says that a request has waited for a reply.
func lateReply(t T, h *Harness, l locker.Locker, link Link, late func()) (waited bool, err error) {
	t.Helper()
	step.WantFree(t, l, step.LockName(t)) // and connects
	name := step.LockName(t)
	late()
	var lease locker.Lease
	granted, err := leftAfter(func() (deadline time.Time, err error) {
		if lease, err = step.Try(t, l, name, h.ttl()...); err != nil {
			return deadline, err
		}
		return lease.Deadline(), nil
	})
	if err != nil {
		return false, err
	}
	renew := func() (time.Time, error) {
		err := step.Renew(t, lease)
		return lease.Deadline(), err
	}
	renewed, err := leftAfter(renew)
	if err != nil {
		return false, err
	}
	link.Heal()
	inForce := h.TTL
	for range 3 {
		prompt, err := leftAfter(renew)
		if err != nil {
			return false, err
		}
		inForce = max(inForce, prompt.ofAll())
	}
	granted.want(t, "the grant", inForce, lateBy(h))
	renewed.want(t, "a renewal", inForce, lateBy(h))
	step.Release(t, lease)
	return max(granted.took, renewed.took) >= lateBy(h), nil
}

// lateBy is how late the replies are. Some drivers wait for an answer for less than a tenth of the TTL.
func lateBy(h *Harness) time.Duration { return h.TTL / 20 }

// lateRounds calls round until it succeeds, for up to Slack. The round calls late, and from then on
// the replies are late. On a busy machine a late reply may come too late for the client. The next
// request may then need a new connection, and while replies are late there is no time for that.
func lateRounds(t T, h *Harness, link Link, round func(late func()) error) {
	t.Helper()
	step.Eventually(t, h.Slack, func() error {
		defer link.Heal()
		if err := round(func() { link.Delay(0, lateBy(h)) }); err != nil {
			return fmt.Errorf("with replies that take a twentieth of the TTL: %w", err)
		}
		return nil
	})
}

// left is how much a lease has left after a request.
type left struct{ took, until time.Duration }

// leftAfter calls request and reads the lease's deadline at once.
func leftAfter(request func() (deadline time.Time, err error)) (left, error) {
	began := time.Now()
	deadline, err := request()
	return left{took: time.Since(began), until: time.Until(deadline)}, err
}

// ofAll is what a lease would have had when the request was sent.
func (l left) ofAll() time.Duration { return l.until + l.took }

// want fails the case if the lease has more left than a TTL that began before a reply which took at
// least late. A request that was faster has not waited for a reply.
func (l left) want(t T, what string, ttl, late time.Duration) {
	t.Helper()
	if l.took >= late && l.until > ttl-late {
		t.Errorf("%v after %s, whose reply took %v or more, the deadline is %v away, want at most %v: "+
			"the lease must count its TTL from the request", l.took, what, late, l.until, ttl-late)
	}
}
