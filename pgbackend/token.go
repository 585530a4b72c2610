package pgbackend

import (
	"fmt"
	"sync/atomic"

	"github.com/fencedlock/locker"
)

// A sequence doesn't only go forward. A replica that takes over may have missed its last values; a
// dump that is restored brings old ones back; so does pg_upgrade from a copy. Then values are given
// out for the second time. So a token has two parts:
//
//	63       48                      0
//	| epoch  |  value of the sequence |
//
// and the epoch rises whenever the sequence may have gone back because it was carried somewhere, or
// a replica took over. (A crash, and what is done to the sequence and the row where they are, is
// the matter of sequence.go.) The epoch is the timeline, and one more for each time that the
// sequence was carried somewhere. It is kept in a row next to the sequence, together with where the
// sequence was then. Each new connection compares that with where it is now:
//
//   - The timeline is another. Postgres begins a new one, with a higher number, at each promotion
//     of a replica and at each recovery to a point in time, and all servers that descend from it
//     share the number. The epoch rises by the difference of the numbers. Not by one: the row may
//     lag as well as the sequence. A server that was promoted on timeline 2 has raised the row to
//     epoch 2 and given tokens out; a replica of it that has missed both and is promoted to
//     timeline 3 reads epoch 1, timeline 1, and comes to epoch 3. One that has missed even the
//     first row begins with 3.
//   - The system identifier is another, which initdb draws; or the database or the sequence is
//     another object. The values were carried here by a dump or an upgrade, and the epoch rises by
//     one, in addition to the difference of the timelines: there may have been promotions here
//     since the dump was made.
//
// These are not detected, because the row doesn't show them:
//
//   - The data files were restored from a copy, or pg_resetwal has thrown the end of the log away.
//   - A standby was made a primary without a promotion (its standby.signal was deleted), or a base
//     backup or a copy of the disk was started without recovery.signal: no new timeline begins. If
//     the last write of the row is there, tokens rise all the same, as after a crash (sequence.go).
//   - The same dump is restored for the second time; or another restore, or an epoch that was raised by
//     hand, came after the dump was made; or no epoch had begun yet.
//   - A promotion is given up, and the former primary is used again.
//   - There were promotions on a server since its dump was made, and the dump is restored
//     elsewhere.
//   - A replica that takes over lags behind one of these events, behind a restore or an upgrade, or
//     behind an epoch that was raised by hand: its promotion raises the epoch to the same number.
//   - The database was moved by logical replication, and the row was not.
//   - A replica takes over from a timeline that another replica has already left, and never
//     followed that one.
//
// After any of these an operator raises the epoch by hand.

const (
	valueBits = 48 // at 65,536 values for each time that nobody was connected, enough for 4 thousand million of them
	maxValue  = 1<<valueBits - 1
	maxEpoch  = 1<<(63-valueBits) - 1
)

// origin is where the values of a sequence come from.
type origin struct {
	system   int64 // the system identifier of the server
	database int64 // OIDs
	sequence int64
	timeline int64
}

// epochRow is the epoch, and where it was valid.
type epochRow struct {
	origin
	epoch int64 // 0: no epoch has begun
}

// at returns the row for connections to a server where the origin is now. It differs from r when it
// has to be written before any token is given out there.
func (r epochRow) at(now origin) epochRow {
	if r.epoch == 0 {
		return epochRow{now, now.timeline}
	}
	step := max(now.timeline-r.timeline, 0)
	same := r.origin
	same.timeline = now.timeline
	if same != now || now.timeline < r.timeline {
		step++
	}
	return epochRow{now, r.epoch + step}
}

// makeToken joins the two parts.
func makeToken(epoch, value int64) (locker.Token, error) {
	switch {
	case epoch < 1 || epoch > maxEpoch:
		return 0, fmt.Errorf("epoch %d of the fencing tokens is not from 1 to %d", epoch, maxEpoch)
	case value < 1 || value > maxValue:
		return 0, fmt.Errorf("value %d of the sequence of fencing tokens is not from 1 to 2^%d; "+
			"raise the epoch by one and restart the sequence", value, valueBits)
	}
	return locker.Token(epoch<<valueBits | value), nil
}

// largestToken is the largest token that this Locker was given. What is asked for from now on is
// larger.
type largestToken struct{ maximum }

func (l *largestToken) get() locker.Token { return locker.Token(l.Load()) }

func (l *largestToken) saw(t locker.Token) { l.raise(int64(t)) }

// maximum is the largest of the numbers that it was given.
type maximum struct{ atomic.Int64 }

func (m *maximum) raise(n int64) {
	for {
		largest := m.Load()
		if n <= largest || m.CompareAndSwap(largest, n) {
			return
		}
	}
}
