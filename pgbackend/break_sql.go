package pgbackend

import (
	"fmt"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/pgsession"
)

// The statements of Break, and of the holder's look for breaches.

// holders is SQL: a table of the sessions of Lockers that have a lock (pid, presence), and one of
// all advisory locks of this database that are held (locks). pg_locks is read once, so both show
// the same moment. mark is the number of the lock that all these sessions share. A session that
// finds out whether another one is over has the other one's presence lock in shared mode for a
// moment (pgsession).
func holders(k key, mark int64) string {
	return fmt.Sprintf("WITH locks AS MATERIALIZED (SELECT pid, classid, objid, objsubid, mode FROM pg_locks WHERE locktype = 'advisory' AND granted"+
		" AND database = (SELECT oid FROM pg_database WHERE datname = current_database())),"+
		" holders AS (SELECT l.pid, own.objid::bigint AS presence FROM locks l JOIN locks own ON own.pid = l.pid AND own.mode = 'ExclusiveLock'"+
		" AND own.classid = %d AND own.objsubid = 2 AND own.objid::bigint NOT IN (0, %d) WHERE %s AND l.objsubid = 1)",
		ownSpace, mark, isKey("l", k))
}

// isKey is SQL: whether an entry of the lock table has a key.
func isKey(entry string, k key) string {
	return fmt.Sprintf("%[1]s.classid = '%[2]d' AND %[1]s.objid = '%[3]d'", entry, uint32(k>>32), uint32(k)) //nolint:gosec // its two halves
}

// hasGate is SQL: whether a row of holders has the gate as well, as a waiter's connection has.
func hasGate(holder string, k key) string {
	return fmt.Sprintf("EXISTS (SELECT FROM locks g WHERE g.pid = %s.pid AND %s AND g.objsubid = 2)", holder, isKey("g", k))
}

// markLease writes a breach into the row of the lease that has a lock, unless there is one. It
// answers the lease's TTL in milliseconds, whether the row is of a waiter's connection, and the
// session's process. No row of the answer: no session has the lock and such a row.
func (s schema) markLease(k key, mark int64, token locker.Token, breach locker.Breach) string {
	return fmt.Sprintf("%s UPDATE %s r SET breach = coalesce(r.breach, convert_from(decode('%x', 'hex'), 'UTF8')) FROM holders h"+
		" WHERE r.key = %s AND r.token = %d AND r.presence = h.presence RETURNING (extract(epoch FROM r.ttl) * 1000)::bigint, %s, h.pid",
		holders(k, mark), s.leases(), driver.FormatBreach(breach), k.lock(), int64(token), hasGate("h", k))
}

// endSession ends the session that has a lock by this lease. It answers the session's presence, how
// many other leases it has, its process, and whether it is a waiter's: with other leases it is ended
// only if that is wanted. While a lease moves there are two such sessions, which are ended both or not
// at all. The first statement locks the row, so that the session can't take the lock again meanwhile.
// That doesn't stop a move: pg_locks is copied before a session is ended, and the lease may leave the
// session in between.
func (s schema) endSession(k key, mark int64, token locker.Token, withOthers bool) string {
	return fmt.Sprintf("SELECT 1 FROM %[1]s WHERE key = %[2]s AND token = %[3]d FOR UPDATE;"+
		" %[4]s, victims AS (SELECT h.pid, h.presence, (SELECT count(DISTINCT (l.classid, l.objid)) - 1 FROM locks l WHERE l.pid = h.pid AND l.objsubid = 1) AS others"+
		" FROM holders h WHERE EXISTS (SELECT FROM holders one JOIN %[1]s r ON r.presence = one.presence WHERE r.key = %[2]s AND r.token = %[3]d))"+
		" SELECT presence, others, pid, %[6]s, CASE WHEN (SELECT sum(others) FROM victims) = 0 OR %[5]t THEN pg_terminate_backend(pid) END FROM victims",
		s.leases(), k.lock(), int64(token), holders(k, mark), withOthers, hasGate("victims", k))
}

// columnsOfVictim is how many columns the answer of endSession has.
const columnsOfVictim = 5

// countSessions counts the sessions with these presences.
func countSessions(presences []uint32) string {
	return fmt.Sprintf("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = %d AND objsubid = 2 AND granted AND objid::bigint IN (%s)"+
		" AND database = (SELECT oid FROM pg_database WHERE datname = current_database())", ownSpace, numbers(presences))
}

// readBreaches is a statement with the rows of a connection that have a breach. There is an index of
// those alone.
func (s schema) readBreaches(presence uint32) string {
	return fmt.Sprintf("SELECT key, presence, token, encode(convert_to(left(breach, %d), 'UTF8'), 'hex') FROM %s WHERE presence = %d AND breach IS NOT NULL",
		driver.MaxBreach, s.leases(), presence)
}

// foundBreach is a row that has a breach.
type foundBreach struct {
	rowID
	token locker.Token
	text  string
}

func foundBreaches(r *pgsession.Call) []foundBreach {
	found := make([]foundBreach, len(r.Rows))
	for i := range found {
		found[i] = foundBreach{rowID{key(r.Int(i, 0)), uint32(r.Int(i, 1))}, locker.Token(r.Int(i, 2)), plain(r.Value(i, 3))} //nolint:gosec // a presence, as the statement wants it
	}
	return found
}
