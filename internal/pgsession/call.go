package pgsession

import (
	"strconv"

	"github.com/fencedlock/locker/driver"
)

// Call is a statement, or a few function calls, and the outcome.
type Call struct {
	Sent driver.Instant // the moment before the message was handed to the connection
	Rows [][]string     // of a statement; NULL is "". May be read once Done is closed

	sql       string
	functions [maxFunctions]Function // instead of a statement
	results   [maxFunctions]result
	count     int           // of functions; 0: it is a statement
	hasTurn   bool          // of statements
	done      chan struct{} // of a statement
	err       error         // the outcome
	answers   int           // complete ones: a statement has one, and each function call has one

	// The mutex of Session guards the rest.
	stage    stage
	number   uint64        // of the write that the call was a part of
	offset   int           // where it began in that write
	isParked bool          // its caller waits for wake
	wake     chan struct{} // has a value when the call has its outcome, or its caller is to read; nil: never parked
	left     bool          // its caller has left
	next     *Call         // the one that was sent after it
}

// stage is how far a call has come.
type stage int

const (
	unsent   stage = iota // no byte was handed to the connection: the call can be withdrawn
	underWay              // the answer will come after the answers of all earlier calls
	over                  // it has its outcome
)

func newStatement(sql string) *Call { return &Call{sql: sql, done: make(chan struct{})} }

func (c *Call) isStatement() bool { return c.count == 0 }

// Functions is how many functions are called.
func (c *Call) Functions() int { return c.count }

// wanted is how many complete answers make the outcome.
func (c *Call) wanted() int { return max(1, c.count) }

// Done is closed when the statement has its outcome.
func (c *Call) Done() <-chan struct{} { return c.done }

// Err is the outcome of a statement: nil, the server's error, or the end of the session. It may be
// called once Done is closed.
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

// finish gives the call its outcome. err is an error of the whole call. The mutex of Session is
// held.
func (c *Call) finish(err error) {
	if err != nil {
		c.err = err
	}
	c.stage = over
	if c.done != nil {
		close(c.done)
	}
	c.notify()
}

// notify wakes the caller if it is parked. The caller then looks what has changed, so a value that
// is left in the channel from before does no harm.
func (c *Call) notify() {
	if !c.isParked {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
