package pgsession

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/fencedlock/locker/driver"
)

// At each moment at most one goroutine reads the connection: the reader. It takes in all answers
// that come, also those to others' calls. A caller that waits becomes the reader if there is none.
// So a caller that is alone gets its answer on its own goroutine. (The way to another goroutine and
// back costs more, on few CPUs, than the server's work.) Further callers are parked until they are
// notified.
//
// Session.reader says who has the role; the mutex guards it. When a caller has its answer, or
// leaves, it passes the role on (passOn): to the caller of the first call under way, or to the
// session's background goroutine. If that caller is leaving as well, it finds that the role is its
// own, and passes it on again. So there is exactly one reader while a call is under way, except for
// the moments in which a caller that has sent its call has not begun to wait yet.
//
// The background goroutine reads from the beginning, and whenever nobody has used the session for a
// while (quiet), so that the end of an idle connection is known at once. It gives the role up when
// it has taken in the last answer under way: the next caller is likely to come soon.
//
// A reader can't leave while it is in a read. So each reader sets the read deadline when it begins.
// When the deadline passes, the reader looks whether it has a reason to leave, and otherwise goes
// on. So a deadline that an earlier reader has set does no harm. The first deadline comes soon
// (firstLook). Only then the reader arranges that the end of its context moves the deadline. Most
// answers come earlier, and to watch a context costs more than not to.

const (
	quiet     = 5 * time.Millisecond // after so long without a call the background goroutine reads
	firstLook = 5 * time.Millisecond // after so long without an answer a reader watches its context
	crowd     = 4                    // with more calls under way than this the background goroutine reads
)

// wait waits for the outcome of a call. It returns when ctx ends, or at until. A zero until is no
// limit. The error is then locker.ErrNoAnswer, with kit.ErrNotSent if the call was not sent.
func (s *Session) wait(ctx context.Context, c *Call, until time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.left = false
	for c.stage != over {
		if s.reader == nil && s.callersRead {
			s.reader = c
		}
		var gone bool
		if s.reader == c {
			gone = s.readFor(ctx, c, until)
		} else {
			gone = s.park(ctx, c, until)
		}
		if gone && c.stage != over {
			c.left = true // so that the role doesn't come back
			s.leaveRole(c)
			return s.leave(c)
		}
	}
	s.leaveRole(c)
	return c.err
}

// park waits until the call has its outcome, or its caller is to read. It reports whether the
// caller leaves. It is called, and returns, with the mutex locked.
func (s *Session) park(ctx context.Context, c *Call, until time.Time) (gone bool) {
	if c.wake == nil {
		c.wake = make(chan struct{}, 1)
	}
	c.isParked = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		c.isParked = false
	}()
	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-c.wake:
		return false
	case <-ctx.Done():
	case <-late:
	}
	return true
}

// readFor reads until c has its outcome. It reports whether the caller leaves before that. It is
// called, and returns, with the mutex locked.
func (s *Session) readFor(ctx context.Context, c *Call, until time.Time) (gone bool) {
	s.setReadDeadline(earlier(time.Now().Add(firstLook), until))
	s.mu.Unlock()
	var stop func() bool // a function of ctx is not called under the mutex, which others' contexts may need
	for gone = true; ctx.Err() == nil; {
		err := s.in.fill(s.net)
		s.mu.Lock()
		goesOn := s.takeIn(err) && c.stage != over
		if goesOn && err != nil {
			s.setReadDeadline(until)
		}
		s.mu.Unlock()
		if !goesOn {
			gone = false
			break
		}
		if err == nil {
			continue
		}
		if !until.IsZero() && !time.Now().Before(until) {
			break
		}
		if stop == nil {
			stop = context.AfterFunc(ctx, func() { s.interrupt(c) })
		}
	}
	if stop != nil {
		stop()
	}
	s.mu.Lock()
	return gone
}

// interrupt makes c's caller look at its context, if it reads.
func (s *Session) interrupt(c *Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader == c {
		s.setReadDeadline(time.Unix(1, 0))
	}
}

// leaveRole passes the role on if it is c's.
func (s *Session) leaveRole(c *Call) {
	if s.reader == c {
		s.reader = nil
		s.passOn()
	}
}

// passOn chooses the next reader. It is called when there is none. A caller that is about to wait
// takes the role by itself.
func (s *Session) passOn() {
	if s.cause != nil || s.head == nil {
		return
	}
	switch {
	case s.underWay > crowd || s.head.left:
		s.assignBackground()
	case s.head.isParked:
		s.reader = s.head
		s.head.notify()
	}
}

func (s *Session) assignBackground() {
	s.reader = &s.background
	select {
	case s.assigned <- struct{}{}:
	default:
	}
}

// takeIn takes in the messages that a read has brought, and its error. It reports whether the
// connection goes on. It does after this package's own deadlines: the caller looks whether a time
// limit is over. (A kernel that gives a connection up reports a timeout as well, but another one.)
func (s *Session) takeIn(err error) bool {
	for s.cause == nil {
		kind, body, ok, invalid := s.in.message()
		if invalid == nil && ok {
			invalid = s.receive(kind, body)
		}
		if invalid != nil {
			s.endLocked(invalid)
		}
		if !ok {
			break
		}
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		s.endLocked(err)
	}
	return s.cause == nil
}

// setReadDeadline bounds the read that is under way, and the next ones. The zero time is no bound.
func (s *Session) setReadDeadline(t time.Time) { _ = s.net.SetReadDeadline(t) }

// earlier is the earlier of two moments. A zero b means never.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b
}

// Silence is for how long the server has said nothing though a call is under way; 0 if none is.
func (s *Session) Silence() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.silenceAt(driver.Now())
}

func (s *Session) silenceAt(now driver.Instant) time.Duration {
	if s.head == nil {
		return 0
	}
	return now.Sub(max(s.head.Sent, s.heard))
}

// Heard is closed when the next answer comes, to any call. It stays open when the connection ends.
func (s *Session) Heard() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nextAnswer == nil {
		s.nextAnswer = make(chan struct{})
	}
	return s.nextAnswer
}

// LastAnswered is when the last call was sent whose answer has come, also when nobody waited for
// the answer any more.
func (s *Session) LastAnswered() driver.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered
}
