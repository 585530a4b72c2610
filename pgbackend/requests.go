package pgbackend

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/pgsession"
)

// What many locks do on the connection that they share: try for a lock together with its token, and
// give it back. All of it goes through conn.request. While a message is under way, requests gather,
// and go out with the next message.

// request is what one lock wants of the shared connection.
type request struct {
	kind kind
	key  key
}

// reply is the outcome of a request.
type reply struct {
	token locker.Token   // 0 if somebody else has the lock
	sent  driver.Instant // when it was asked for
	err   error
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

// newRequests makes the lane of a connection. It is one: more messages at the same time would only
// wait for each other on the connection, each with fewer requests in it.
func (c *conn) newRequests() *kit.Lanes[request, reply] {
	return kit.NewLanes(c.send, kit.LaneOptions{Width: 1, Size: groupSize, Limit: maxCall, CallersSend: true})
}

// request executes a request. It returns only when the request was sent or won't be, however long
// its caller is willing to wait: a request that is still to be sent could overtake its own
// clean-up, and take a lock that nobody knows of, or free one that was taken since. The time limit
// of a message bounds that.
func (c *conn) request(ctx context.Context, kind kind, k key) reply {
	r, err := c.requests.Do(context.WithoutCancel(ctx), request{kind, k})
	if err != nil {
		r.err = err
	}
	return r
}

// send is one message and its answers.
func (c *conn) send(ctx context.Context, some []request) ([]reply, error) {
	floor := c.d.largest.get()
	answer, err := c.exec(ctx, message(some, c.tokens.next))
	if err != nil {
		err = c.afterRefusal(kit.Overdue(err))
	}
	replies := make([]reply, len(some))
	var rows [][]string
	if answer != nil && (err == nil || pgsession.Refused(err)) {
		rows = answer.Rows
	}
	given := len(rows) > 0 && rows[0][0] == "0" // the first statement was executed, whatever became of the second
	for i, r := range some {
		if given && r.kind >= give {
			continue
		}
		replies[i].err = err
		if answer != nil {
			replies[i].sent = answer.Sent
		}
	}
	if err != nil {
		return replies, nil // each has the error
	}
	for _, row := range rows {
		i, _ := strconv.Atoi(row[0])
		if i < 1 || i > len(some) || row[1] == "" { // the first statement's row, or a lock that somebody has
			continue
		}
		value, _ := strconv.ParseInt(row[1], 10, 64)
		r := &replies[i-1]
		r.token, r.err = c.admit(ctx, floor, value)
	}
	return replies, nil
}

// message is the statements for some requests: one that gives locks back, and one that takes those
// that are free. A token comes after its lock and only with it: CASE evaluates what it needs, in
// this order. If that fails some of the locks may have been taken. next is SQL: the next value of
// the sequence.
func message(some []request, next string) string {
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
		return fmt.Sprintf("SELECT 1, CASE WHEN pg_try_advisory_lock(%s) THEN %s END", some[0].key.lock(), next)
	case takes > 0:
		sql += fmt.Sprintf("SELECT i, CASE WHEN k IS NULL THEN %[1]s WHEN pg_try_advisory_lock(k) THEN %[1]s END FROM (VALUES (%[2]s)) t(i, k)",
			next, second.String())
	}
	return sql
}

// afterRefusal is called with the error of a message. If the server has refused the message, and no
// lease is lost by that, the connection is given up: a new one may find that the sequence is
// another one now, for example. Otherwise it keeps its leases, and if no token can be had on it any
// more, another connection is made for what is to come.
func (c *conn) afterRefusal(err error) error {
	switch {
	case !pgsession.Refused(err):
	case pgsession.Says(err, codeNoMemory):
		return tableIsFull(err)
	case c.leases.Load() == 0 && !pgsession.Says(err, codeLockWait):
		c.End(err)
	case pgsession.Says(err, codeInternal, codeNoTable): // the sequence is another one now, which this connection will never find
		c.resign()
	}
	return err
}

// try asks for a lock.
func (c *conn) try(ctx context.Context, k key) (locker.Token, driver.Instant, error) {
	r := c.request(ctx, take, k)
	return r.token, r.sent, r.err
}

// unlock gives a lock back. What this session doesn't hold is left alone: then it had been given
// back before.
func (c *conn) unlock(ctx context.Context, k key, has holding) error {
	kinds := map[holding]kind{exclusively: give, inSharedMode: giveShared, inEitherMode: giveEither}
	return c.request(ctx, kinds[has], k).err
}

// takeToken takes a token for a lock that is held by another session.
func (c *conn) takeToken(ctx context.Context) (locker.Token, error) {
	taken := make(chan reply, 1)
	go func() { taken <- c.request(ctx, takeToken, 0) }() // ends within the time limit of a message
	select {
	case r := <-taken:
		return r.token, r.err
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", driver.ContextError(ctx), kit.ErrNoAnswer)
	}
}
