package pgsession

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

// Session is a connection on which calls are executed, in the order in which they were sent, and
// the server's session that it leads to. Statements take turns, and function calls don't.
type Session struct {
	Settings

	// PID is the server's process, from Look on.
	PID int64

	// Presence is SQL: the key of an advisory lock that this session holds until it ends, and that
	// no other session takes. The owner of the session makes sure of both. Terminate learns from it
	// whether the session still exists.
	Presence string

	net         net.Conn
	keyPID      int64 // the process that was named when the connection was made: the server's own, or a number of a pooler's
	version     int   // of the server, from Look on
	oneMachine  bool  // the server is on this machine, from CheckSettings on
	callersRead bool  // callers may read for themselves

	turn   chan struct{} // full while a statement is under way, or is about to be sent
	slots  chan struct{} // has a value for each Call of functions that is under way, or is about to be sent
	queue  chan struct{} // full while an ordinary caller waits for its turn: urgent callers pass the others
	down   chan struct{} // closed when the connection has ended
	closed chan struct{} // closed after ended has returned

	terminating chan struct{} // full while a goroutine finds out whether the server's session is over
	terminated  bool          // it is

	in       buffer        // the reader's
	assigned chan struct{} // has a value when the background goroutine is to look whether it reads

	mu         sync.Mutex     // guards the rest
	cause      error          // why the connection has ended
	unsent     []*Call        // calls that wait for the write under way
	isWriting  bool           // a goroutine sends
	out        []byte         // the buffer of writes
	writes     uint64         // that have begun
	goodbye    goodbye        // to the server
	begun      uint64         // calls
	head, tail *Call          // the calls under way, in the order of their answers
	underWay   int            // how many they are
	reader     *Call          // whose caller reads, or &background; nil: nobody does
	background Call           // means the background goroutine, as the reader
	answers    uint64         // that have come
	heard      driver.Instant // when the last one of them came; at first, when this began
	nextAnswer chan struct{}  // closed when the next one of them comes; nil: nobody wants to know
	answered   driver.Instant // when the last call was sent that has its answer; at first, when this began
}

// New makes a Session of a connection on which nothing is under way. Start must be called before
// anything else.
func New(c *Conn, settings Settings) *Session {
	outlast(c.stream, settings.tcpLimit())
	now := driver.Stamp()
	return &Session{
		Settings: settings,
		net:      c.stream,
		keyPID:   c.keyPID,
		// The caller of a statement that blocks waits for other things as well (Call.Done), and can't
		// read meanwhile.
		callersRead: !settings.Blocks && isSocket(c.stream),
		turn:        make(chan struct{}, 1),
		slots:       make(chan struct{}, mostFunctionCalls),
		queue:       make(chan struct{}, 1),
		down:        make(chan struct{}),
		closed:      make(chan struct{}),
		terminating: make(chan struct{}, 1),
		assigned:    make(chan struct{}, 1),
		heard:       now,
		answered:    now,
	}
}

// isSocket reports whether a stream is one of the operating system, maybe with TLS. A reader leaves
// those by a deadline. Other streams, which a DialFunc may return, may have no deadlines, or end by
// the first one.
func isSocket(stream net.Conn) bool {
	if secured, ok := stream.(interface{ NetConn() net.Conn }); ok { // TLS
		stream = secured.NetConn()
	}
	_, ok := stream.(syscall.Conn)
	return ok
}

// Start begins to read. ended is called once, when the connection has ended, in a goroutine of the
// session, which ends then.
func (s *Session) Start(ended func(cause error)) {
	go func() {
		defer close(s.closed)
		s.readInBackground()
		ended(s.Err())
	}()
}

// Exec executes a statement, and returns its outcome. After an error that matches kit.ErrNotSent
// the statement was not sent; after an error of the server (pgconn.PgError) it has failed; after
// any other error nobody knows. ctx covers the waiting: a statement that was sent goes on, and
// later statements wait for their turn. So a server that is slow isn't sent more and more of them.
// Function calls don't wait for a turn.
func (s *Session) Exec(ctx context.Context, sql string) (*Call, error) {
	select {
	case s.queue <- struct{}{}:
		defer func() { <-s.queue }()
	case <-s.down:
		return nil, notSent(s.Err())
	case <-ctx.Done():
		return nil, notSent(locker.ErrNoAnswer)
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
		return nil, notSent(s.Err())
	case <-ctx.Done():
		return nil, notSent(locker.ErrNoAnswer)
	}
	c := newStatement(sql)
	c.hasTurn = true
	if err := s.begin(ctx, c); err != nil {
		<-s.turn
		return nil, err
	}
	return c, nil
}

// BeginAlongside is Begin without a turn, for a caller that bounds by itself how many of its
// statements are under way.
func (s *Session) BeginAlongside(ctx context.Context, sql string) (*Call, error) {
	c := newStatement(sql)
	if err := s.begin(ctx, c); err != nil {
		return nil, err
	}
	return c, nil
}

// Wait waits for the outcome of a statement that was begun. Only one goroutine at a time waits for
// it.
func (s *Session) Wait(ctx context.Context, c *Call) error { return s.wait(ctx, c, time.Time{}) }

// End ends the connection, unless it has ended. The calls under way get the cause as their outcome:
// nobody knows whether they were executed. Those that were not sent get it with kit.ErrNotSent.
func (s *Session) End(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(cause)
}

func (s *Session) endLocked(cause error) {
	if s.cause != nil {
		return
	}
	s.cause = fmt.Errorf("%w: %w", ErrEnded, kit.Overdue(cause))
	for s.head != nil {
		c := s.head
		s.pop()
		c.finish(s.cause)
	}
	for _, c := range s.unsent {
		c.finish(notSent(s.cause))
	}
	s.unsent, s.underWay = nil, 0
	close(s.down)
	s.closeStream()
}

// closeStream closes the stream. TLS says goodbye to the peer before, and waits up to 5 s for a peer
// that doesn't read (crypto/tls of Go 1.26, closeNotify). Here the mutex is held, so it gets maxGoodbye.
func (s *Session) closeStream() {
	if secured, ok := s.net.(interface{ NetConn() net.Conn }); ok {
		defer time.AfterFunc(maxGoodbye, func() { _ = secured.NetConn().Close() }).Stop()
	}
	_ = s.net.Close()
}

const maxGoodbye = 20 * time.Millisecond // a kernel that has room for it takes it at once

// Err is why the connection has ended; nil while it hasn't.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// Close ends the connection in good order: the server is asked to end it, and has until ctx is
// over.
func (s *Session) Close(ctx context.Context) {
	s.mu.Lock()
	if s.cause == nil && s.goodbye == unasked {
		s.goodbye = wanted
		s.sendLocked()
		if s.reader == nil { // so that the end is noticed
			s.assignBackground()
		}
	}
	s.mu.Unlock()
	select {
	case <-s.closed:
	case <-ctx.Done():
	}
	s.End(ErrClosed)
	<-s.closed
}
