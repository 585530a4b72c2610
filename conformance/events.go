package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/fencedlock/locker"
)

// observed makes open attach an observer to each Locker, which compares the events of the Locker
// with what package locker promises of them. It reports at the end of the case, after Close.
func observed(open func(T) locker.Locker) func(T) locker.Locker {
	return func(t T) locker.Locker {
		t.Helper()
		l := open(t)
		check := &eventCheck{calls: make(map[uint64]*callEvents)}
		if _, err := locker.Observe(l, check, 0); err != nil {
			t.Errorf("Observe = %v, want nil: with Harness.Observe each Locker must say what it does", err)
			return l
		}
		t.Cleanup(func() { // after the Locker was closed: this was registered before
			s, _ := locker.StatsOf(l)
			for _, wrong := range check.finish(s) {
				t.Errorf("%s", wrong)
			}
		})
		return l
	}
}

// eventCheck is an observer that knows which events may follow each other.
type eventCheck struct {
	mu     sync.Mutex
	calls  map[uint64]*callEvents
	counts locker.Stats
	losses uint64
	closed bool
	clean  bool // Close has returned nil: nothing goes on
	wrong  []string
}

// callEvents is what the events of one call of Acquire have said so far.
type callEvents struct {
	state     callState
	first     locker.Event
	last      locker.EventKind
	waited    bool
	requeued  bool // so there may be an acquisition that is removed while the call goes on
	abandoned bool
	removing  bool // a removal has failed
	failures  int  // of renewals, in a row
	token     locker.Token
}

// callState is how far a call, and the lease that it returned, has come.
type callState int

const (
	callAsks callState = iota
	callRefused
	leaseHeld
	leaseEnding // it was released, and the removal has failed so far
	leaseLost
	leaseReleased
)

func (c *eventCheck) Observe(_ context.Context, e locker.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Kind == locker.EventClosed {
		if c.closed {
			c.wrong = append(c.wrong, "there are two events of Close")
		}
		c.closed, c.clean = true, e.Cause == nil
		return
	}
	call := c.calls[e.ID]
	if call == nil {
		call = &callEvents{first: e}
		c.calls[e.ID] = call
	}
	c.count(e)
	if rule := call.follow(e); rule != "" {
		c.wrong = append(c.wrong, fmt.Sprintf("call %d (%q): the event %q came after %q: %s; it is %+v", e.ID, e.Name, e.Kind, call.last, rule, e))
	}
	call.last = e.Kind
}

// follow moves a call by one event. It returns the rule that the event breaks; empty: none.
func (c *callEvents) follow(e locker.Event) (rule string) {
	before := c.state
	if e.Name != c.first.Name || e.Backend != c.first.Backend || e.Backend == "" || e.ID == 0 {
		return "it is of another lock than the call"
	}
	if c.token != 0 && e.Token != c.token && e.Kind&(locker.EventRemoving|locker.EventRemoved) == 0 {
		return fmt.Sprintf("the token was %v", c.token)
	}
	switch e.Kind {
	case locker.EventWaiting:
		if before != callAsks || c.waited {
			return "a call waits once, before it has an outcome"
		}
		c.waited = true
	case locker.EventRequeued:
		if before != callAsks || e.Cause == nil {
			return "only a call that waits is requeued, and there is a cause"
		}
		c.requeued = true
	case locker.EventGranted:
		c.state, c.token = leaseHeld, e.Token
		if before != callAsks || c.abandoned || e.Token <= 0 || e.Contended != c.waited {
			return "a call has one outcome; a lease has a token, and is contended if the call waited"
		}
	case locker.EventRefused:
		c.state = callRefused
		if before != callAsks || e.Cause == nil {
			return "a call has one outcome, and an error has a cause"
		}
	case locker.EventAbandoned:
		if before != callAsks && before != callRefused || c.abandoned || e.Token <= 0 {
			return "only the grant of a call that fails is abandoned, once"
		}
		c.abandoned = true
	case locker.EventRenewed, locker.EventRenewalFailed:
		return c.followRenewal(e)
	case locker.EventLost:
		c.state = leaseLost
		if before != leaseHeld || locker.LossOf(e.Cause) == "" || e.Held < 0 {
			return "only a lease that is held can be lost, and there is a reason"
		}
	case locker.EventReleased:
		c.state = leaseReleased
		if before != leaseHeld && before != leaseEnding || e.Held < 0 || e.Took < 0 {
			return "only a lease that is held can be released"
		}
	case locker.EventRemoving, locker.EventRemoved:
		return c.followRemoval(e)
	default:
		return "no such kind is known"
	}
	return ""
}

func (c *callEvents) followRenewal(e locker.Event) (rule string) {
	c.failures++
	if e.Kind == locker.EventRenewed {
		c.failures = 0
	}
	if c.state != leaseHeld || e.Tries != c.failures || (e.Cause == nil) != (e.Kind == locker.EventRenewed) {
		return "only a lease that is held is renewed; failures have causes and are counted"
	}
	return ""
}

func (c *callEvents) followRemoval(e locker.Event) (rule string) {
	switch {
	case c.requeued: // it may be of the acquisition that was lost before
	case c.state == callAsks:
		return "nothing of the call is over"
	case c.state == leaseHeld && e.Kind == locker.EventRemoving:
		c.state = leaseEnding
	case c.state == leaseHeld, c.state == leaseEnding && e.Kind == locker.EventRemoved:
		return "a lease that its holder has released ends as released"
	}
	if e.Kind == locker.EventRemoved && !c.removing || (e.Kind == locker.EventRemoving) != (e.Cause != nil && e.Tries > 0) {
		return "a removal is an event once it has failed, and a failure has a cause and is counted"
	}
	c.removing = true
	return ""
}

// count adds up what Stats counts as well.
func (c *eventCheck) count(e locker.Event) {
	switch n := &c.counts; e.Kind {
	case locker.EventGranted:
		n.Granted++
	case locker.EventRequeued:
		n.Requeued++
	case locker.EventAbandoned:
		n.Abandoned++
	case locker.EventRenewed:
		n.Renewed++
	case locker.EventRenewalFailed:
		n.RenewalsFailed++
	case locker.EventReleased:
		n.Released++
	case locker.EventRemoving:
		n.RemovalsFailed++
	case locker.EventLost:
		c.losses++
	}
}

// finish returns what was wrong. Once Close has returned nil, each call has an outcome, each lease has an
// end, and the events are as many as the Locker has counted.
func (c *eventCheck) finish(s locker.Stats) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	wrong := slices.Clone(c.wrong)
	switch {
	case s.EventsDropped > 0:
		return nil // what came may not fit together
	case !c.clean:
		return wrong
	}
	for id, call := range c.calls {
		if call.state == callAsks || call.state == leaseHeld {
			wrong = append(wrong, fmt.Sprintf("call %d (%q): the last event before Close was done is %q", id, call.first.Name, call.last))
		}
	}
	lost := uint64(0)
	for _, n := range s.Lost {
		lost += n
	}
	n := c.counts
	for _, row := range []struct {
		what            string
		events, counted uint64
	}{
		{"granted", n.Granted, s.Granted}, {"requeued", n.Requeued, s.Requeued}, {"abandoned", n.Abandoned, s.Abandoned},
		{"renewed", n.Renewed, s.Renewed}, {"renewal failed", n.RenewalsFailed, s.RenewalsFailed}, {"lost", c.losses, lost},
		{"released", n.Released, s.Released}, {"removing", n.RemovalsFailed, s.RemovalsFailed},
	} {
		if row.events != row.counted {
			wrong = append(wrong, fmt.Sprintf("there were %d events %q, and Stats has counted %d", row.events, row.what, row.counted))
		}
	}
	return wrong
}
