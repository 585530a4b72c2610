package pgbackend

import (
	"context"
	"fmt"
	"strings"
)

// A crash makes a sequence go back, also with synchronous_commit on. nextval writes ahead: one record in the log covers its value
// and 32 more (SEQ_LOG_VALS in sequence.c), and those are given out without any. Whoever wrote the record waits, at the end of its
// statement, until it is on disk; whoever gets one of the other 32 meanwhile waits for nothing. After a crash at that moment the
// sequence goes on from the last record that was on disk, and gives values out again.
//
// A crash ends all connections. So a new connection moves the sequence on, by more than it can have gone back, before it gives out
// its first token. By how much can that be? What is not on disk was written by statements that are under way: a statement is not
// over before its records are on disk. There is at most one on each of the C connections of the server (max_connections), and each
// has taken at most G values, from a group, and logged at most 32 more. So with all of them the values that were given out are less
// than
//
//	C × (G + 32)
//
// ahead of the disk. But moving the sequence on is such a statement as well, and takes more values than any of these. So
//
//   - it is done in steps of S = C × (G + 32) values, each a transaction of its own, which is on disk before the next begins, and
//   - one connection at a time takes steps: it has the turn, a lock, until the last one is on disk.
//
// Then all that is not on disk is less than C × (G + 32) + S + 32 ≤ 2 S + 32 values, and four steps are more. What is left over, two
// steps less 32, is for statements that are broken off in the middle, a step or many others: those leave values behind that nobody waits
// for. The disk gets them with the next record of anybody's, or after 0.6 s at most (three times wal_writer_delay).
//
// All that is needed once in each life of the server, not by each connection. A crash has them all come back at the same time: if
// each took steps, one after the other, none might be ready before it gives up. Whoever has taken them takes a mark, an advisory lock in
// shared mode; locks don't outlive a crash. Who has the turn looks for a mark before each step, by trying for the same lock
// exclusively; if there is one it takes no step, but a mark too. It doesn't matter if marks are lost while the server lives (a waiter
// that gives up drops its own): with the last one gone, somebody takes steps once more.
//
// It is one message, so that nobody has to wait for a client between two steps. Transactions surround all that may fail while it has
// the turn, which is the session's and outlives an error: the server ends a session that is idle in a transaction after a second.
//
// C must not be much smaller than before the crash: whoever lowers max_connections to less than a third stops the server in the ordinary
// way for that. (A larger step for safety would cost every restart of a busy machine more than it can bring.)

const (
	groupSize = 64 // tokens taken by one statement, at most: G
	logAhead  = 32 // values that one record covers besides the first
	skipSteps = 4
)

// skipStep is how many values each of skipSteps transactions takes from the sequence, on a server that takes so many connections.
func skipStep(connections int) int { return max(connections, 1) * (groupSize + logAhead) }

// skip moves the sequence on, unless that has been done in this life of the server.
func (c *conn) skip(ctx context.Context, connections int) error {
	turn, mark := pair(ownSpace, 0), pair(ownSpace, int32(c.place.sequence)) //nolint:gosec // an OID has 32 bits
	values := fmt.Sprintf("(SELECT max(%s) FROM generate_series(1, %d))", c.next, skipStep(connections))
	step := "BEGIN; SELECT CASE WHEN pg_try_advisory_lock(" + mark + ") THEN CASE WHEN pg_advisory_unlock(" + mark + ") THEN " + values + " END END; COMMIT; "
	_, err := c.exec(ctx, "BEGIN; SELECT pg_advisory_lock("+turn+"); COMMIT; "+strings.Repeat(step, skipSteps)+
		"BEGIN; SELECT pg_advisory_lock_shared("+mark+"); SELECT pg_advisory_unlock("+turn+"); COMMIT")
	return err
}
