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
// ahead of the disk. It is moved on by three times that. The rest is for statements that are broken off in the middle: those leave
// values behind that nobody waits for. The disk gets them with the next record of anybody's, or after 0.6 s at most (three times
// wal_writer_delay).
//
// Moving the sequence on is such a statement as well, and takes more values than any of these, so nobody may give out values while it
// is under way. And it is needed once in each life of the server, not by each connection: a crash has them all come back at the same
// time, and if each wrote so much, one after the other, none might be ready before it gives up. Hence a mark, an advisory lock in
// shared mode, which every connection takes before its first token, and keeps; locks don't outlive a crash. Under another lock, one
// connection at a time looks for a mark (by trying for the same lock exclusively), moves the sequence on if there is none, and takes
// one itself when that is on disk. While it does so nobody has a mark, so nobody gives out values; and whoever finds a mark finds all
// on disk.
//
// It is one message, so the server comes to its end whether the client is still there or not. If it fails, the connection is ended, and
// both locks go with that.

const (
	groupSize = 64 // tokens taken by one statement, at most: G
	logAhead  = 32 // values that one record covers besides the first
)

// skipValues is by how many values the sequence is moved on, on a server that takes so many connections.
func skipValues(connections int) int { return 3 * max(connections, 1) * (groupSize + logAhead) }
