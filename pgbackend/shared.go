package pgbackend

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/pgsession"
)

// What many leases do on the connection that they share: try for a lock together with its token, and give it back. While a statement
// is under way, what comes meanwhile gathers, and goes out with the next message. (kit.Group sends several messages side by side; on
// one connection they would only stand in line, each with less in it.)

// request is what one lock wants of the shared connection.
type request struct {
	kind  kind
	key   key
	token locker.Token   // what became of it: the token; 0 when somebody else has the lock
	sent  driver.Instant // and when it was asked for
	err   error
	done  chan struct{}
}

type kind int

const (
	take       kind = iota // the lock, if nobody has it, and a token
	takeToken              // a token alone
	give                   // the lock back
	giveShared             // the lock back that is held in shared mode
	giveEither             // the lock back that is held in one of the modes, or in both
)

const (
	maxCall   = 2 * time.Second // bounds one statement and its answer
	groupSize = 64              // requests in one message, at most
)

// ask carries a request out, alone if nothing is under way. It returns only when the request was sent or won't be, however long its
// caller is willing to wait: what is still to be sent could overtake its own clean-up, and take a lock that nobody knows of, or free
// one that was taken since. The connection's time limit bounds that.
func (c *conn) ask(r *request) error {
	c.mu.Lock()
	if c.asking {
		r.done = make(chan struct{})
		c.waiting = append(c.waiting, r)
		c.mu.Unlock()
		<-r.done
		return r.err
	}
	c.asking = true
	c.mu.Unlock()
	c.askAll([]*request{r})
	if next := c.gathered(); next != nil {
		go c.askOn(next)
	}
	return r.err
}

// gathered takes what has gathered. If that is nothing, the next request is alone.
func (c *conn) gathered() []*request {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.waiting), groupSize)
	some := c.waiting[:n:n]
	if c.waiting = c.waiting[n:]; len(c.waiting) == 0 {
		c.waiting = nil // the array goes with its requests
	}
	c.asking = n > 0
	return some
}

// askOn sends messages until nothing has gathered.
func (c *conn) askOn(some []*request) {
	for len(some) > 0 {
		c.askAll(some)
		for _, r := range some {
			close(r.done)
		}
		some = c.gathered()
	}
}

// askAll is one message and its answers, of several callers: it has none of their contexts.
//
//nolint:contextcheck
func (c *conn) askAll(some []*request) {
	ctx, cancel := context.WithTimeout(context.Background(), maxCall)
	defer cancel()
	floor := c.d.floor()
	answer, err := c.exec(ctx, c.message(some))
	if err != nil {
		err = c.refused(pgsession.Overdue(err))
	}
	var rows [][]string
	if err == nil || pgsession.Refused(err) {
		rows = answer.Rows
	}
	given := len(rows) > 0 && rows[0][0] == "0" // the first statement was carried out, whatever became of the second
	for _, r := range some {
		if given && r.kind >= give {
			continue
		}
		if r.err = err; answer != nil {
			r.sent = answer.Sent
		}
	}
	if err != nil {
		return
	}
	for _, row := range rows {
		i, _ := strconv.Atoi(row[0])
		if i < 1 || i > len(some) || row[1] == "" { // the first statement's row, or a lock that somebody has
			continue
		}
		value, _ := strconv.ParseInt(row[1], 10, 64)
		r := some[i-1]
		r.token, r.err = c.admit(ctx, floor, value)
	}
}

// message is the statements for some requests: one that gives locks back, and one that takes those that are free. A token comes after
// its lock and only with it: CASE evaluates what it needs, in this order. If that fails some of the locks may have been taken.
func (c *conn) message(some []*request) string {
	var first, second strings.Builder
	takes := 0
	for i, r := range some {
		switch r.kind {
		case give, giveShared, giveEither:
			if r.kind != give {
				first.WriteString(", pg_advisory_unlock_shared(" + r.key.lock() + ")")
			}
			if r.kind != giveShared {
				first.WriteString(", pg_advisory_unlock(" + r.key.lock() + ")")
			}
		default:
			k := "NULL::bigint"
			if r.kind == take {
				k = r.key.lock()
			}
			if takes++; takes > 1 {
				second.WriteString("), (")
			}
			second.WriteString(strconv.Itoa(i+1) + ", " + k)
		}
	}
	var sql string
	if first.Len() > 0 {
		sql = "SELECT 0" + first.String() + ";"
	}
	switch {
	case takes == 1 && len(some) == 1 && some[0].kind == take:
		return fmt.Sprintf("SELECT 1, CASE WHEN pg_try_advisory_lock(%s) THEN %s END", some[0].key.lock(), c.next)
	case takes > 0:
		sql += fmt.Sprintf("SELECT i, CASE WHEN k IS NULL THEN %[1]s WHEN pg_try_advisory_lock(k) THEN %[1]s END FROM (VALUES (%[2]s)) t(i, k)",
			c.next, second.String())
	}
	return sql
}

// refused is called when the server has refused a statement that takes tokens. If no lease is lost by that the connection is given up: a
// new one finds out whether the sequence is another one now, say. Else it keeps its leases, and if no token can be had on it any more,
// another one is made for what is to come.
func (c *conn) refused(err error) error {
	switch {
	case !pgsession.Refused(err):
	case pgsession.Says(err, codeNoMemory):
		return fmt.Errorf("%w: it is full; raise max_locks_per_transaction: %w", ErrLockTable, err)
	case c.leases.Load() == 0 && !pgsession.Says(err, codeLockWait):
		c.End(err)
	case pgsession.Says(err, codeInternal, codeNoTable): // the sequence is another one now, which this connection will never find
		c.resign()
	}
	return err
}

// try asks for a lock.
func (c *conn) try(k key) (locker.Token, driver.Instant, error) {
	r := &request{kind: take, key: k}
	err := c.ask(r)
	return r.token, r.sent, err
}

// unlock gives a lock back. What this session doesn't hold is left alone: then it had been given back before.
func (c *conn) unlock(k key, has holding) error {
	r := &request{kind: give, key: k}
	switch has {
	case inSharedMode:
		r.kind = giveShared
	case inEitherMode:
		r.kind = giveEither
	}
	return c.ask(r)
}

// takeToken takes a token for a lock that hangs on something else.
func (c *conn) takeToken(ctx context.Context) (locker.Token, error) {
	r := &request{kind: takeToken}
	asked := make(chan error, 1)
	go func() { asked <- c.ask(r) }() // ends within the connection's time limit
	select {
	case err := <-asked:
		return r.token, err
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", driver.ContextError(ctx), pgsession.ErrNoAnswer)
	}
}
