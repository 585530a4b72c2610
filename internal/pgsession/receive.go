package pgsession

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fencedlock/locker/driver"
)

// Types of the server's messages. All others say nothing that matters here: descriptions of
// columns, notices, changes of settings, which may come at any time.
const (
	dataRow          = 'D'
	functionResponse = 'V'
	errorResponse    = 'E'
	readyForQuery    = 'Z' // the end of each answer
)

// buffer is what has been read of the server's stream, and not taken in yet. Only the reader uses
// it.
type buffer struct {
	bytes []byte
	begin int
}

const (
	headerSize = 5       // of a message: its type and its length, which counts itself
	readSize   = 1 << 12 // there is room for that much in each read
	maxMessage = 1 << 26 // more than any answer: with a larger length, the stream is not understood
)

// fill reads once. What it has read is in the buffer also when it returns an error.
func (b *buffer) fill(from io.Reader) error {
	if b.begin == len(b.bytes) {
		b.bytes, b.begin = b.bytes[:0], 0
		if cap(b.bytes) > maxKept {
			b.bytes = nil
		}
	}
	if cap(b.bytes)-len(b.bytes) < readSize/2 {
		rest := b.bytes[b.begin:]
		b.bytes, b.begin = append(make([]byte, 0, 2*len(rest)+readSize), rest...), 0
	}
	n, err := from.Read(b.bytes[len(b.bytes):cap(b.bytes)])
	b.bytes = b.bytes[:len(b.bytes)+n]
	return err
}

// message takes the next message off. It is false if not all of it has come.
func (b *buffer) message() (kind byte, body []byte, ok bool, err error) {
	rest := b.bytes[b.begin:]
	if len(rest) < headerSize {
		return 0, nil, false, nil
	}
	length := binary.BigEndian.Uint32(rest[1:])
	if length < headerSize-1 || length > maxMessage {
		return 0, nil, false, fmt.Errorf("the server has sent a message of %d bytes", length)
	}
	size := 1 + int(length)
	if len(rest) < size {
		return 0, nil, false, nil
	}
	b.begin += size
	return rest[0], rest[headerSize:size], true, nil
}

// receive takes one message in. Its error ends the connection. The mutex is held.
func (s *Session) receive(kind byte, body []byte) error {
	c := s.head
	if c == nil && (kind == dataRow || kind == functionResponse || kind == readyForQuery) {
		return errors.New("the server has sent an answer that nobody asked for")
	}
	switch kind {
	case dataRow:
		return c.takeRow(body)
	case functionResponse:
		if c.isStatement() {
			return errors.New("the server's answer doesn't belong to the statement")
		}
		return c.results[c.answers].take(body, &c.functions[c.answers])
	case errorResponse:
		return c.takeError(body)
	case readyForQuery:
		return s.takeEnd(c)
	}
	return nil
}

func (c *Call) takeRow(body []byte) error {
	var m pgproto3.DataRow
	if err := m.Decode(body); err != nil {
		return err
	}
	if !c.isStatement() {
		return errors.New("the server's answer doesn't belong to the function call")
	}
	row := make([]string, len(m.Values))
	for i, value := range m.Values {
		row[i] = string(value)
	}
	c.Rows = append(c.Rows, row)
	return nil
}

// takeError takes in an error of the server. It is the error of one statement, or of one function
// call, unless it is fatal, or nothing is under way (c is nil).
func (c *Call) takeError(body []byte) error {
	var m pgproto3.ErrorResponse
	if err := m.Decode(body); err != nil {
		return err
	}
	err := pgconn.ErrorResponseToPgError(&m)
	severity := cmp.Or(err.SeverityUnlocalized, err.Severity) // the latter is in the server's language; poolers give it alone
	if severity == "FATAL" || severity == "PANIC" || c == nil {
		return err
	}
	first := &c.err
	if !c.isStatement() {
		first = &c.results[c.answers].err
	}
	if *first == nil {
		*first = err
	}
	return nil
}

// takeEnd takes in the end of one answer.
func (s *Session) takeEnd(c *Call) error {
	if !c.isStatement() {
		if r := &c.results[c.answers]; !r.came && r.err == nil {
			return errors.New("the server has not answered a function call")
		}
	}
	s.heard = driver.Stamp()
	if s.nextAnswer != nil {
		close(s.nextAnswer)
		s.nextAnswer = nil
	}
	s.answers++
	if c.answers++; c.answers == c.wanted() {
		s.answered = c.Sent
		s.pop()
		s.freeSlot(c)
		c.finish(nil)
	}
	return nil
}
