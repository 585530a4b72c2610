package pgbackend

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/pgsession"
)

// Several requests in one message, which is one statement or two of the simple protocol.

// sendGroup is one message and its answers.
func (c *conn) sendGroup(ctx context.Context, some []*request) ([]reply, error) {
	floor := c.d.largest.get()
	answer, err := c.execGroup(ctx, some)
	if err != nil {
		err = c.afterRefusal(kit.Overdue(err))
	}
	replies := make([]reply, len(some))
	var rows [][]string
	if answer != nil && (err == nil || pgsession.Refused(err)) {
		rows = answer.Rows
	}
	given := len(rows) > 0 && rows[0][0] == "0" // the statement that gives back was executed, whatever became of the other one
	for i, r := range some {
		if given && r.kind.givesBack() {
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

// execGroup executes the statements of a group. No request is withdrawn while they are handed to
// the session.
func (c *conn) execGroup(ctx context.Context, some []*request) (*pgsession.Call, error) {
	for _, r := range some {
		r.mu.Lock()
		r.isHanded = !r.isWithdrawn
	}
	call, err := c.beginGroup(ctx, message(some, c.tokens.next))
	for _, r := range some {
		r.mu.Unlock()
	}
	if err != nil {
		return nil, err
	}
	return c.endIfSilent(call, c.Wait(ctx, call))
}

func (c *conn) beginGroup(ctx context.Context, sql string) (*pgsession.Call, error) {
	if sql == "" {
		return nil, errWithdrawn
	}
	return c.BeginAlongside(ctx, sql)
}

// message is the statements for some requests: one that gives locks back, and one that takes those
// that are free. A token comes after its lock and only with it: CASE evaluates what it needs, in
// this order. If that fails some of the locks may have been taken. Requests that were withdrawn are
// left out: nobody waits for their replies. next is SQL: the next value of the sequence.
func message(some []*request, next string) string {
	var first, second strings.Builder
	takes := 0
	for i, r := range some {
		if r.isWithdrawn {
			continue
		}
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
