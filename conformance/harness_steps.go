package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// The steps and bounds that depend on the harness. Package step has the others.

// OpenLocker opens a Locker that is closed when the case ends.
func (h *Harness) OpenLocker(t T) locker.Locker {
	t.Helper()
	return step.CloseAtEnd(t, h.Open(t))
}

// OpenLinked opens a Locker that is closed when the case ends, and returns its link too. The link
// is healed before.
func (h *Harness) OpenLinked(t T) (locker.Locker, Link) {
	t.Helper()
	return openLink(t, h.Linked)
}

// openForgetful is OpenLinked with a link that can forget its connections.
func (h *Harness) openForgetful(t T) (locker.Locker, ForgetfulLink) {
	t.Helper()
	return openLink(t, h.Forgetful)
}

func openLink[L Link](t T, open func(T) (locker.Locker, L)) (locker.Locker, L) {
	t.Helper()
	l, link := open(t)
	step.CloseAtEnd(t, l)
	t.Cleanup(link.Heal)
	return l, link
}

// WaitQueued waits until n acquisitions wait for the lock on the service. Without the hook Waiters
// it lets Settle pass.
func (h *Harness) WaitQueued(t T, name string, n int) {
	t.Helper()
	if h.Waiters == nil {
		step.Pass(t, h.Settle)
		return
	}
	step.Eventually(t, step.Limit, func() error {
		if got := h.Waiters(t, name); got != n {
			return fmt.Errorf("%d acquisitions wait on the service, want %d", got, n)
		}
		return nil
	})
}

// waitInLine waits until n callers are in the line for permits, where the service shows its queues.
// Elsewhere, and when it doesn't show them, the callers get some time.
func (h *Harness) waitInLine(t T, looker locker.Locker, name string, n int) {
	t.Helper()
	if locker.InspectionQueue.Check(h.guarantees) != nil {
		step.Pass(t, 2*h.Settle)
		return
	}
	for end := time.Now().Add(step.Limit); inLine(t, looker, name) != n && time.Now().Before(end); {
		step.Pass(t, h.Settle/10)
	}
}

// inLine counts the first in the line, who has its lock, and those who wait for it.
func inLine(t T, looker locker.Locker, name string) (n int) {
	ctx, cancel := context.WithTimeout(t.Context(), step.Limit/2)
	defer cancel()
	for s, err := range locker.List(ctx, looker, name, 0) {
		if err == nil && s.Name == name && s.Slot == locker.LineSlot && s.Holder != nil {
			n = 1 + s.Waiting
		}
	}
	return n
}

// WaitNoResidue waits until nothing is left on the service. Without the hook Residue it does
// nothing.
func (h *Harness) WaitNoResidue(t T) {
	t.Helper()
	if h.Residue == nil {
		return
	}
	step.Eventually(t, h.RemovalLimit(), func() error {
		if left := h.Residue(t); left != "" {
			return errors.New("left on the service: " + left)
		}
		return nil
	})
}

// PauseService stops the service until resume is called, or the case ends.
func (h *Harness) PauseService(t T) (resume func()) { return between(t, h.Pause, h.Resume) }

// TakeDown makes the service fail until up is called, or the case ends.
func (h *Harness) TakeDown(t T) (up func()) { return between(t, h.Down, h.Up) }

// between calls begin. It returns a function that calls end once, at the end of the case at the
// latest.
func between(t T, begin, end func(T)) (stop func()) {
	begin(t)
	over := false
	stop = func() {
		if !over {
			over = true
			end(t)
		}
	}
	t.Cleanup(stop)
	return stop
}

// HandOffLimit is the longest time from a release until a waiter has the lock.
func (h *Harness) HandOffLimit() time.Duration {
	if h.guarantees.Waiting >= locker.WaitingNotify {
		return h.Slack
	}
	return h.Slack + time.Second // polite pauses
}

// ExpiryLimit is the longest time from the last sign of life of a dead or silent holder until its
// lease is over.
func (h *Harness) ExpiryLimit() time.Duration {
	if h.guarantees.Expiry.TTL {
		return h.TTL + h.guarantees.Expiry.Slack + h.Slack
	}
	return h.guarantees.Expiry.Slack + h.Slack
}

// DeathLimit is the longest time from the death of a holder's or waiter's process until its lease
// or place is over.
func (h *Harness) DeathLimit() time.Duration {
	switch h.guarantees.Expiry.By {
	case locker.ExpiryProcess, locker.ExpiryConnection:
		return h.HandOffLimit() // at once
	}
	return h.ExpiryLimit()
}

// RemovalLimit is the longest time until all is gone that a failed acquisition or a lost lease may
// have left, from when the service can be reached again: one call that hangs until its own timeout,
// and the longest pause before the next.
func (h *Harness) RemovalLimit() time.Duration { return h.ExpiryLimit() + 15*time.Second }

// rounds scales a number of repetitions.
func (h *Harness) rounds(n int) int {
	if h.Scale == 0 {
		return n
	}
	return max(int(float64(n)*h.Scale), 10)
}

// ttl adds the suite's short TTL to opts, where the backend has one.
func (h *Harness) ttl(opts ...locker.Option) []locker.Option {
	if h.TTL > 0 {
		opts = append(opts, locker.WithTTL(h.TTL))
	}
	return opts
}

// longTTL adds a TTL to opts that is much longer than the suite's, where the backend has one.
func (h *Harness) longTTL(opts ...locker.Option) []locker.Option {
	if h.TTL > 0 {
		opts = append(opts, locker.WithTTL(min(8*h.TTL, 30*time.Second)))
	}
	return opts
}

// follows compares the token of a lease with the one before. Tokens that can't fence need only be
// unique, which Break rests on.
func (h *Harness) follows(earlier, later locker.Token) error {
	fences := h.guarantees.Fencing >= locker.FencingUntilDataLoss
	switch {
	case fences && later <= earlier:
		return fmt.Errorf("token %v after %v: a later lease must have a larger one", later, earlier)
	case later <= 0 || later == earlier:
		return fmt.Errorf("token %v after %v: a lease must have one of its own, above 0", later, earlier)
	}
	return nil
}

// wantNext fails the case unless the token may follow the other one.
func (h *Harness) wantNext(t T, earlier, later locker.Token) {
	t.Helper()
	if err := h.follows(earlier, later); err != nil {
		t.Fatalf("%v", err)
	}
}

// short is the length of a wait that is going to fail.
func (h *Harness) short() time.Duration {
	if h.TTL > 0 {
		return h.TTL / 2
	}
	return 100 * time.Millisecond
}

// requests is the number of requests that the service has got, where the harness can count them.
func (h *Harness) requests(t T) int64 {
	if h.Requests == nil {
		return 0
	}
	return h.Requests(t)
}

// requestsAtRest counts when no more requests come. Where several servers are asked, an operation
// returns when most of them have answered, and the last request may come later.
func (h *Harness) requestsAtRest(t T) int64 {
	t.Helper()
	n := h.requests(t)
	for range 20 {
		before := n
		step.Pass(t, h.Settle) // earlier requests may arrive late
		if n = h.requests(t); n == before {
			break
		}
	}
	return n
}
