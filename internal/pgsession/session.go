package pgsession

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

// Session is a connection on which statements are executed one after the other, and the server's
// session that it leads to.
type Session struct {
	Settings

	// PID is the server's process, from Look on.
	PID int64

	// Presence is SQL: the key of an advisory lock that this session holds until it ends, and that
	// no other session takes. The owner of the session makes sure of both. Terminate learns from it
	// whether the session still exists.
	Presence string

	net        net.Conn
	keyPID     int64 // the process that was named when the connection was made: the server's own, or a number of a pooler's
	version    int   // of the server, from Look on
	oneMachine bool  // the server is on this machine, from CheckSettings on

	turn   chan struct{} // full while a statement is under way
	queue  chan struct{} // full while an ordinary caller waits for its turn: urgent callers pass the others
	down   chan struct{} // closed when the connection has ended
	closed chan struct{} // closed when nobody reads any more, and after ended has returned

	terminating chan struct{} // full while a goroutine finds out whether the server's session is over
	terminated  bool          // it is

	mu       sync.Mutex
	cause    error          // why it has ended
	current  *Call          // under way
	answered driver.Instant // when the last statement was sent that has its answer; at first, when this began
}

// Call is one statement and its outcome.
type Call struct {
	Sent driver.Instant
	Rows [][]string // NULL is ""; may be read once Done is closed

	err  error
	done chan struct{}
}

// Done is closed when the statement has its outcome.
func (c *Call) Done() <-chan struct{} { return c.done }

// Err is the outcome: nil, the server's error, or the end of the session. It may be called once
// Done is closed.
func (c *Call) Err() error { return c.err }

// Value is one field of the answer; "" is NULL, or a field that isn't there.
func (c *Call) Value(row, column int) string {
	if row >= len(c.Rows) || column >= len(c.Rows[row]) {
		return ""
	}
	return c.Rows[row][column]
}

// Int is a field that is a number; 0 if it is none.
func (c *Call) Int(row, column int) int64 {
	n, err := strconv.ParseInt(c.Value(row, column), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Bool is a field that is a truth value; false if it is none.
func (c *Call) Bool(row, column int) bool { return c.Value(row, column) == "t" }

// maxWrite bounds the writing of a statement, which waits only where nothing has got through for
// long.
const maxWrite = 5 * time.Second

// New makes a Session of a connection on which nothing is under way. Start must be called before
// anything else.
func New(c *Conn, settings Settings) *Session {
	outlast(c.stream, settings.tcpLimit())
	return &Session{
		Settings:    settings,
		net:         c.stream,
		keyPID:      c.keyPID,
		turn:        make(chan struct{}, 1),
		queue:       make(chan struct{}, 1),
		down:        make(chan struct{}),
		closed:      make(chan struct{}),
		terminating: make(chan struct{}, 1),
		answered:    driver.Stamp(),
	}
}

// Start begins to read. ended is called once, when the connection has ended, in the goroutine that
// reads, which ends then.
func (s *Session) Start(ended func(cause error)) {
	go func() {
		defer close(s.closed)
		s.read(pgproto3.NewFrontend(s.net, s.net))
		ended(s.Err())
	}()
}

// Exec executes a statement, and returns its outcome. After an error that matches kit.ErrNotSent
// the statement was not sent; after an error of the server (pgconn.PgError) it has failed; after
// any other error nobody knows. ctx covers the waiting: a statement that was sent goes on, and
// later callers wait for their turn.
func (s *Session) Exec(ctx context.Context, sql string) (*Call, error) {
	select {
	case s.queue <- struct{}{}:
		defer func() { <-s.queue }()
	case <-s.down:
		return nil, s.Err()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", kit.ErrNoAnswer, kit.ErrNotSent)
	}
	return s.ExecUrgent(ctx, sql)
}

// ExecUrgent is Exec for a statement that may pass all others but the one under way.
func (s *Session) ExecUrgent(ctx context.Context, sql string) (*Call, error) {
	c, err := s.Begin(ctx, sql)
	if err != nil {
		return nil, err
	}
	return c, s.Wait(ctx, c)
}

// Begin sends a statement, and doesn't wait for its outcome.
func (s *Session) Begin(ctx context.Context, sql string) (*Call, error) {
	select {
	case s.turn <- struct{}{}:
	case <-s.down:
		return nil, s.Err()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", kit.ErrNoAnswer, kit.ErrNotSent)
	}
	message, err := (&pgproto3.Query{String: sql}).Encode(nil)
	if err != nil {
		<-s.turn
		return nil, fmt.Errorf("%w: %w", kit.ErrNotSent, err)
	}
	c := &Call{done: make(chan struct{})}
	s.mu.Lock()
	if s.cause != nil {
		defer s.mu.Unlock()
		return nil, s.cause
	}
	c.Sent = driver.Stamp()
	s.current = c
	s.mu.Unlock()
	_ = s.net.SetWriteDeadline(time.Now().Add(maxWrite))
	if _, err := s.net.Write(message); err != nil {
		s.End(err)
	}
	return c, nil
}

// Wait waits for the outcome of a statement that was begun.
func (s *Session) Wait(ctx context.Context, c *Call) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	select {
	case <-c.done: // at the same time
		return c.err
	default:
		return kit.ErrNoAnswer
	}
}

// Silence is for how long the statement under way has had no answer; 0 if there is none.
func (s *Session) Silence() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return 0
	}
	return driver.Now().Sub(s.current.Sent)
}

// LastAnswered is when the last statement was sent whose answer has come, also when nobody waited
// for the answer any more.
func (s *Session) LastAnswered() driver.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered
}

// read takes in what the server sends, until the connection ends.
func (s *Session) read(from *pgproto3.Frontend) {
	for {
		message, err := from.Receive()
		if err != nil {
			s.End(err)
			return
		}
		if err := s.receive(message); err != nil {
			s.End(err)
			return
		}
	}
}

// receive takes one message in. Its error ends the connection.
func (s *Session) receive(message pgproto3.BackendMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.current
	switch m := message.(type) {
	case *pgproto3.DataRow:
		if c == nil {
			return errors.New("the server has sent a row that nobody asked for")
		}
		row := make([]string, len(m.Values))
		for i, value := range m.Values {
			row[i] = string(value)
		}
		c.Rows = append(c.Rows, row)
	case *pgproto3.ErrorResponse:
		err := pgconn.ErrorResponseToPgError(m)
		severity := cmp.Or(err.SeverityUnlocalized, err.Severity) // the latter is in the server's language; poolers give it alone
		if severity == "FATAL" || severity == "PANIC" || c == nil {
			return err
		}
		if c.err == nil {
			c.err = err
		}
	case *pgproto3.ReadyForQuery:
		if c == nil {
			return errors.New("the server has sent an answer that nobody asked for")
		}
		s.current, s.answered = nil, c.Sent
		<-s.turn
		close(c.done)
	}
	return nil
}

// End ends the connection, unless it has ended. The statement under way gets the cause as its
// outcome: nobody knows whether it was executed.
func (s *Session) End(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return
	}
	s.cause = fmt.Errorf("%w: %w", ErrEnded, kit.Overdue(cause))
	if s.current != nil {
		s.current.err = s.cause
		close(s.current.done)
		s.current = nil
	}
	close(s.down)
	_ = s.net.Close()
}

// Err is why the connection has ended; nil while it hasn't.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// Close ends the connection in good order: the server is asked to end it, and has until ctx is
// over.
func (s *Session) Close(ctx context.Context) {
	message, err := (&pgproto3.Terminate{}).Encode(nil)
	if err == nil {
		_ = s.net.SetWriteDeadline(time.Now().Add(maxWrite))
		_, err = s.net.Write(message)
	}
	if err == nil {
		select {
		case <-s.closed:
		case <-ctx.Done():
		}
	}
	s.End(ErrClosed)
	<-s.closed
}
