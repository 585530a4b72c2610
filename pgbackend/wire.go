package pgbackend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

// wire is a connection on which statements are carried out one after the other. It knows nothing of locks.
//
// pgx makes the connection, and then hands its stream over, for three reasons. Somebody always reads, so the end of a connection is
// known at once and not with the next statement. The end of a caller's context never reaches it: pgx closes a connection on which a
// statement was cancelled, and all leases that hang on it would be lost. And a statement goes out in one whole message, of the
// simple protocol: a server that has got half of an exchange of the extended one counts the connection as busy for ever, and its
// idle_session_timeout doesn't run.
type wire struct {
	net net.Conn
	pid int64 // of the process that serves it

	turn   chan struct{} // full while a statement is under way
	queue  chan struct{} // full while an ordinary caller waits for its turn: the urgent ones pass the others
	down   chan struct{} // closed when the connection has ended
	closed chan struct{} // closed when nobody reads any more, and after ended has returned

	mu       sync.Mutex
	cause    error          // why it has ended
	current  *call          // under way
	answered driver.Instant // when the last statement was sent that has its answer; at first, when this began
}

// call is one statement and what came of it, which may be read once done is closed.
type call struct {
	sent driver.Instant
	rows [][]string // NULL is ""
	err  error
	done chan struct{}
}

// maxWrite bounds the writing of a statement, which waits only where nothing has got through for long.
const maxWrite = 5 * time.Second

// newWire takes the stream of a connection on which nothing is under way. ended is called once, when the connection has ended, in
// the goroutine that reads, which ends then.
func newWire(stream net.Conn, ended func(cause error)) *wire {
	w := &wire{
		net:      stream,
		turn:     make(chan struct{}, 1),
		queue:    make(chan struct{}, 1),
		down:     make(chan struct{}),
		closed:   make(chan struct{}),
		answered: driver.Stamp(),
	}
	go func() {
		defer close(w.closed)
		w.read(pgproto3.NewFrontend(stream, stream))
		ended(w.err())
	}()
	return w
}

// do carries a statement out. After an error that matches kit.ErrNotSent it was not sent; after one of the server's
// (pgconn.PgError) it has failed; after any other nobody knows. ctx covers the waiting: what was sent goes on, and keeps those who
// come later waiting for their turn.
func (w *wire) do(ctx context.Context, sql string) (*call, error) {
	select {
	case w.queue <- struct{}{}:
		defer func() { <-w.queue }()
	case <-w.down:
		return nil, w.err()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errNoAnswer, kit.ErrNotSent)
	}
	return w.doUrgent(ctx, sql)
}

// doUrgent is do for a statement that may pass all others but the one under way: a renewal.
func (w *wire) doUrgent(ctx context.Context, sql string) (*call, error) {
	c, err := w.begin(ctx, sql)
	if err != nil {
		return nil, err
	}
	return c, w.wait(ctx, c)
}

// begin sends a statement, and doesn't wait for its outcome.
func (w *wire) begin(ctx context.Context, sql string) (*call, error) {
	select {
	case w.turn <- struct{}{}:
	case <-w.down:
		return nil, w.err()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errNoAnswer, kit.ErrNotSent)
	}
	message, err := (&pgproto3.Query{String: sql}).Encode(nil)
	if err != nil {
		<-w.turn
		return nil, fmt.Errorf("%w: %w", kit.ErrNotSent, err)
	}
	c := &call{done: make(chan struct{})}
	w.mu.Lock()
	if w.cause != nil {
		defer w.mu.Unlock()
		return nil, w.cause
	}
	c.sent = driver.Stamp()
	w.current = c
	w.mu.Unlock()
	_ = w.net.SetWriteDeadline(time.Now().Add(maxWrite))
	if _, err := w.net.Write(message); err != nil {
		w.end(err)
	}
	return c, nil
}

// wait waits for the outcome of a statement that was begun.
func (w *wire) wait(ctx context.Context, c *call) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	select {
	case <-c.done: // at the same time
		return c.err
	default:
		return errNoAnswer
	}
}

// silence is for how long the statement under way has had no answer; 0 if there is none.
func (w *wire) silence() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current == nil {
		return 0
	}
	return driver.Now().Sub(w.current.sent)
}

// lastAnswered is when the last statement was sent whose answer has come, if only when nobody waited for it any more.
func (w *wire) lastAnswered() driver.Instant {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answered
}

// read takes in what the server sends, until the connection ends.
func (w *wire) read(from *pgproto3.Frontend) {
	for {
		message, err := from.Receive()
		if err != nil {
			w.end(err)
			return
		}
		if err := w.receive(message); err != nil {
			w.end(err)
			return
		}
	}
}

// receive takes one message in. Its error ends the connection.
func (w *wire) receive(message pgproto3.BackendMessage) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.current
	switch m := message.(type) {
	case *pgproto3.DataRow:
		if c == nil {
			return errors.New("the server has sent a row that nobody asked for")
		}
		row := make([]string, len(m.Values))
		for i, value := range m.Values {
			row[i] = string(value)
		}
		c.rows = append(c.rows, row)
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
		w.current, w.answered = nil, c.sent
		<-w.turn
		close(c.done)
	}
	return nil
}

// end ends the connection, unless it has ended. The statement under way gets the cause for its outcome: nobody knows what came of
// it.
func (w *wire) end(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cause != nil {
		return
	}
	w.cause = fmt.Errorf("%w: %w", errConnection, overdue(cause))
	if w.current != nil {
		w.current.err = w.cause
		close(w.current.done)
		w.current = nil
	}
	close(w.down)
	_ = w.net.Close()
}

// err is why the connection has ended; nil while it hasn't.
func (w *wire) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cause
}

// goodbye ends the connection in good order: the server is told, and has until ctx is over to end it.
func (w *wire) goodbye(ctx context.Context) {
	message, err := (&pgproto3.Terminate{}).Encode(nil)
	if err == nil {
		_ = w.net.SetWriteDeadline(time.Now().Add(maxWrite))
		_, err = w.net.Write(message)
	}
	if err == nil {
		select {
		case <-w.closed:
		case <-ctx.Done():
		}
	}
	w.end(errClosed)
	<-w.closed
}
