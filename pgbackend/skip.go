package pgbackend

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
//   - it is done in steps of S = C × (G + 32) values, each a statement of its own, which is on disk before the next begins, and
//   - one connection at a time takes a step: under a lock that the server itself holds until the step is on disk.
//
// Then all that is not on disk is less than C × (G + 32) + S + 32 ≤ 2 S + 32 values, and three steps are more. What is left over, a
// step less 32, is for statements that are broken off in the middle: those leave values behind that nobody waits for. The disk
// gets them with the next record of anybody's, or after 0.6 s at most (three times wal_writer_delay).
//
// All that is needed once in each life of the server, not by each connection. Whoever has done it takes a mark, an advisory lock in
// shared mode, and keeps it; locks don't outlive a crash. A new connection looks for a mark, by trying for the same lock exclusively,
// under the lock for steps: so it sees none before the last step of another is on disk. If there is a mark it takes one too, and is
// done. If there is none it takes the steps; some may do so at the same time, one step after the other.

const (
	groupSize = 64 // tokens taken by one statement, at most: G
	logAhead  = 32 // values that one record covers besides the first
	skipSteps = 3
)

// skipStep is how many values each of skipSteps statements takes from the sequence, on a server that takes so many connections.
func skipStep(connections int) int { return max(connections, 1) * (groupSize + logAhead) }
