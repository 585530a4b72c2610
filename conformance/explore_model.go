package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencedlock/locker"
)

// model is what is known of a program that runs: who has asked for which lock, what was answered,
// and which faults there were. Its invariants (explore_invariants.go) compare that with the contract.
type model struct {
	h     *Harness
	start time.Time
	base  string // begins each name of this run

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced when a call returns
	seq      int
	parties  []*party
	attempts map[int]*attempt      // by the ID of the program
	locks    map[string][]*attempt // by the lock's identity, in order of their beginning
	faults   []*fault              // of the service
	calls    map[*call]struct{}    // under way
	longest  time.Duration         // TTL of this program

	overtakings []overtaking // in the order in which they were seen
	log         []entry
	broken      *breach // the first
	noted       bool    // the timeline is complete

	brokenLock string // which lock broken is about; "": none
}

// moment is a point in time, and its place in the order of what the model has seen. In a bubble
// much happens at one time.
type moment struct {
	at  time.Time
	seq int
}

// before reports whether m was seen before n. Without a place in the order the times are compared.
func (m moment) before(n moment) bool {
	if m.at.IsZero() {
		return false
	}
	if n.seq == 0 || m.seq == 0 {
		return !m.at.After(n.at)
	}
	return m.seq < n.seq
}

func (m moment) happened() bool { return !m.at.IsZero() }

// party is a Locker of the program.
type party struct {
	number  int
	opening Opening
	l       locker.Locker
	link    Link
	faults  []*fault
	there   time.Duration // the longest delay that the link has had since it was healed
	back    time.Duration

	closing, closed moment
	closeErr        error
}

// attempt is a call of Acquire and what came of it.
type attempt struct {
	id     int
	party  *party
	name   string // as the Locker's caller says it
	lock   string // which lock that is: prefix and name
	step   Step
	inside *attempt     // whose lease's context the call has
	floor  locker.Token // the largest token of a lease on this lock that was returned before it began

	began, returned moment
	cancelled       moment
	cancel          context.CancelCauseFunc
	lease           locker.Lease
	token           locker.Token // as the lease had it at first
	err             error
	force           time.Duration // the TTL in force, as far as the lease shows it

	asked    moment // the first call of Release
	freed    moment // the first call of Release that returned nil
	ended    moment // when Done was seen closed
	endErr   error
	doubt    string // why two holders are possible, by contract; see explore_doubts.go
	mustKnow time.Time
	mustEnd  time.Time
}

func (a *attempt) String() string { return fmt.Sprintf("#%d", a.id) }

// waits reports whether a is a waiter.
func (a *attempt) waits() bool { return a.step.Wait != 0 }

// call is a call of the program that is under way.
type call struct {
	what  string
	began time.Time
	by    time.Time // when it must have returned; zero: it may wait
	party *party    // nil: it may take its time, even if nothing is disturbed
}

type entry struct {
	at     time.Duration
	lock   string // which lock it is about; "": all
	format string
	args   []any
}

// breach is a broken invariant.
type breach struct {
	Invariant string // its name
	What      string // what was seen
	Why       string // why it matters
}

func (b *breach) String() string {
	return fmt.Sprintf("%s: %s\nwhy it matters: %s", b.Invariant, b.What, b.Why)
}

func newModel(h *Harness, base string) *model {
	return &model{
		h: h, base: base, start: time.Now(), changed: make(chan struct{}),
		attempts: make(map[int]*attempt), locks: make(map[string][]*attempt), calls: make(map[*call]struct{}),
		longest: h.TTL,
	}
}

// now is the next moment. The caller has the mutex.
func (m *model) now() moment {
	m.seq++
	return moment{time.Now(), m.seq}
}

// note writes into the timeline. The caller has the mutex. Args are formatted when somebody reads
// the timeline, so they must not change.
func (m *model) note(format string, args ...any) {
	if m.noted {
		return
	}
	m.log = append(m.log, entry{time.Since(m.start), lockOf(args), format, args})
}

// lockOf is the lock that a line of the timeline is about.
func lockOf(args []any) string {
	for _, arg := range args {
		if a, ok := arg.(*attempt); ok {
			return a.lock
		}
	}
	return ""
}

// breach notes a broken invariant. The first one counts: the others may be its consequences. The
// caller has the mutex.
func (m *model) breach(i invariant, format string, args ...any) {
	if m.broken != nil {
		return
	}
	m.broken = &breach{i.name, fmt.Sprintf(format, args...), i.why}
	m.brokenLock = lockOf(args)
	m.note("BROKEN: %s", i.name)
	m.noted = true // what follows is only how the program was broken off
	m.wake()
}

// wake ends the waits for a change. The caller has the mutex.
func (m *model) wake() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// prompt is the longest time that a call takes which waits for nothing.
func (m *model) prompt() time.Duration { return m.h.Slack + 100*time.Millisecond }

// locked calls f with the mutex.
func (m *model) locked(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// begin notes a call that must return within limit; 0: it may wait. If nothing disturbs prompt, the
// call must return at once. The caller has the mutex.
func (m *model) begin(prompt *party, limit time.Duration, format string, args ...any) *call {
	c := &call{what: fmt.Sprintf(format, args...), began: time.Now(), party: prompt}
	if limit > 0 {
		c.by = time.Now().Add(limit)
	}
	m.calls[c] = struct{}{}
	return c
}

// end notes that a call has returned. The caller has the mutex.
func (m *model) end(c *call) {
	delete(m.calls, c)
	now := time.Now()
	if took := now.Sub(c.began); c.party != nil && took > m.prompt() && m.undisturbed(c.party, c.began, now) {
		m.breach(callsReturn, "%s took %v, and nothing disturbs its locker", c.what, took)
	}
	if !c.by.IsZero() && time.Now().After(c.by) {
		m.breach(callsReturn, "%s has returned %v too late", c.what, time.Since(c.by))
	}
}

// inForce is the TTL after whose silence the service may end a's lease: what was asked for, or more
// where the lease shows that the service has rounded it up.
func (m *model) inForce(a *attempt) time.Duration { return max(a.force, m.asked(a)) }

func (m *model) asked(a *attempt) time.Duration {
	if m.h.TTL == 0 {
		return 0
	}
	return a.step.TTL
}

// show looks at how long a new lease lasts. A grant after a wait may be half a TTL old, so the TTL
// in force may be twice of what is left.
func (m *model) show(a *attempt) {
	if a.step.MaxHold > 0 || a.lease.Deadline().IsZero() {
		return
	}
	left := a.lease.Deadline().Sub(a.returned.at)
	if left <= m.asked(a) {
		return
	}
	if a.force = a.lease.Deadline().Sub(a.began.at); a.waits() {
		a.force = 2 * left
	}
	a.force += a.force / 50
}

// isLive reports whether a's holder believes that it has the lock. The caller has the mutex.
func (a *attempt) isLive() bool { return a.lease != nil && !a.ended.happened() && a.lease.Err() == nil }

// pending reports whether a's Acquire has not returned.
func (a *attempt) pending() bool { return !a.returned.happened() }

// refused reports whether the answer was that somebody else has the lock.
func (a *attempt) refused() bool { return a.err != nil && errors.Is(a.err, locker.ErrHeld) }
