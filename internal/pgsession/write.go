package pgsession

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

// All calls of a session are sent on its one connection, without waiting for each other's answers.
// Session.head is the first of the calls that have no answer, and the next answer belongs to it.
// One goroutine at a time sends. A caller that comes in the meantime leaves its call in
// Session.unsent, and the next write takes all calls from there.

// A write waits only if the kernel's buffer is full, because nothing has got through for long. It can't
// be left: a part of a message would be on its way. So maxWrite bounds it. And once the server has said
// nothing for maybeFull though a call is under way, a goroutine of its own writes: then callers don't
// wait for the write, but for their answers, and can leave.
const (
	maxWrite  = 5 * time.Second
	maybeFull = 100 * time.Millisecond
)

// begin sends a call, or leaves it to the goroutine that is sending.
func (s *Session) begin(ctx context.Context, c *Call) error {
	if ctx.Err() != nil {
		return notSent(locker.ErrNoAnswer)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.cause != nil:
		return notSent(s.cause)
	case s.goodbye != unasked:
		return notSent(fmt.Errorf("%w: %w", ErrEnded, ErrClosed))
	}
	s.begun++
	s.unsent = append(s.unsent, c)
	s.sendLocked()
	return nil
}

// goodbye is the message that asks the server to end the session. Nothing is sent after it.
type goodbye int

const (
	unasked goodbye = iota
	wanted
	said
)

// sendLocked sends what is unsent, or leaves it to the goroutine that is sending. It is called, and
// returns, with the mutex locked.
func (s *Session) sendLocked() {
	if s.isWriting {
		return
	}
	s.isWriting = true
	if s.silenceAt(driver.Stamp()) < maybeFull {
		s.writeLocked()
	}
	if s.hasUnsent() { // this caller waits for its own answer
		go s.writeRest()
	} else {
		s.isWriting = false
	}
}

func (s *Session) hasUnsent() bool { return len(s.unsent) > 0 || s.goodbye == wanted && s.cause == nil }

// writeRest sends what others have left, until nothing is unsent.
func (s *Session) writeRest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.hasUnsent() {
		s.writeLocked()
	}
	s.isWriting = false
}

// writeLocked sends all that is unsent. It is called, and returns, with the mutex locked.
func (s *Session) writeLocked() {
	sent := driver.Stamp()
	out := s.out[:0]
	s.writes++
	for _, c := range s.unsent {
		c.Sent, c.stage, c.number, c.offset = sent, underWay, s.writes, len(out)
		out = c.appendTo(out)
		s.push(c)
	}
	clear(s.unsent)
	s.unsent = s.unsent[:0]
	if s.goodbye == wanted {
		s.goodbye = said
		out = append(out, 'X', 0, 0, 0, 4)
	}
	s.mu.Unlock()
	_ = s.net.SetWriteDeadline(time.Now().Add(maxWrite))
	n, err := s.net.Write(out)
	s.mu.Lock()
	if s.out = out; cap(out) > maxKept {
		s.out = nil
	}
	if err != nil {
		s.takeBack(n)
		s.endLocked(err)
	}
}

// maxKept is the largest buffer that is kept for the next write or read.
const maxKept = 1 << 14

// takeBack marks the calls of the last write as unsent that begin after its first n bytes. The
// server executes no message that it hasn't got completely. A call of which a part was written
// counts as sent.
func (s *Session) takeBack(n int) {
	var last *Call // that was sent
	for c := s.head; c != nil; c = c.next {
		if c.number == s.writes && c.offset >= n {
			c.stage = unsent
			s.unsent = append(s.unsent, c)
		} else {
			last = c
		}
	}
	s.tail = last
	if last == nil {
		s.head = nil
	} else {
		last.next = nil
	}
}

// appendTo appends the message or messages of a call to b.
func (c *Call) appendTo(b []byte) []byte {
	if c.isStatement() {
		b = append(b, 'Q')
		b = binary.BigEndian.AppendUint32(b, uint32(4+len(c.sql)+1)) //nolint:gosec // statements are short
		b = append(b, c.sql...)
		return append(b, 0)
	}
	for i := range c.count {
		b = c.functions[i].appendTo(b)
	}
	return b
}

// push appends a call to those under way.
func (s *Session) push(c *Call) {
	if s.tail == nil {
		s.head = c
	} else {
		s.tail.next = c
	}
	s.tail = c
	s.underWay++
}

// pop takes the first call off: its answer is complete.
func (s *Session) pop() {
	c := s.head
	if s.head = c.next; s.head == nil {
		s.tail = nil
	}
	c.next = nil
	s.underWay--
}

// leave is called when the caller of a call leaves without its outcome. A call that was not sent is
// withdrawn, and that is its outcome. A call that was sent stays where it is: otherwise its late
// answer would be taken for the answer to the next one.
func (s *Session) leave(c *Call) error {
	if c.stage != unsent {
		return locker.ErrNoAnswer
	}
	s.unsent = slices.DeleteFunc(s.unsent, func(other *Call) bool { return other == c })
	s.freeSlot(c)
	c.finish(notSent(locker.ErrNoAnswer))
	return c.err
}

// freeSlot lets another call be sent, now that c is over. It never blocks.
func (s *Session) freeSlot(c *Call) {
	from := s.slots
	if c.isStatement() {
		if !c.hasTurn {
			return
		}
		from = s.turn
	}
	select {
	case <-from:
	default:
	}
}

// notSent says of a call that it can't be executed any more.
func notSent(cause error) error { return fmt.Errorf("%w: %w", cause, kit.ErrNotSent) }
