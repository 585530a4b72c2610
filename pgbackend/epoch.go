package pgbackend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/pgsession"
)

// serverID identifies a server, its database and its start: locks of one server say nothing about
// another.
type serverID struct {
	origin
	started int64 // when the server was started, in µs
}

// hasLocksOf reports whether both are the same server and database, and so have the same locks. The
// sequence may differ: a restore replaces it.
func (s serverID) hasLocksOf(other serverID) bool {
	return s.system == other.system && s.database == other.database && s.started == other.started
}

// isStill reports whether both are the same server and database, maybe with a restart in between. A
// server that takes over begins another timeline.
func (s serverID) isStill(other serverID) bool {
	return s.system == other.system && s.database == other.database && s.timeline == other.timeline
}

// begin takes the presence lock, and finds out where the sequence is and which epoch it is in.
func (t *tokenSource) begin(ctx context.Context) error {
	for {
		// 0 is the key of the turn, and an OID is the key of the mark. Few servers have OIDs that large.
		number := 1<<31 | rand.Uint32()
		t.presence, t.session.Presence = number, presence(number)
		var row epochRow
		var now origin
		present := false
		if err := t.read(ctx, &row, &now, &present); err != nil {
			return err
		}
		if int64(number) == now.sequence {
			return errors.New("the presence lock has the key of the mark, by chance: this session must end")
		}
		if present { // otherwise another session has this lock
			return t.beginEpoch(ctx, row, now)
		}
	}
}

func (t *tokenSource) read(ctx context.Context, row *epochRow, now *origin, present *bool) error {
	r, err := t.exec(ctx, "SELECT (SELECT system_identifier FROM pg_control_system()),"+
		" (SELECT oid FROM pg_database WHERE datname = current_database()),"+
		fmt.Sprintf(" %s::regclass::oid,", pgsession.Literal(t.schema.sequence()))+
		" "+timelineOfServer+","+
		" "+startOfServer+","+
		fmt.Sprintf(" pg_try_advisory_lock(%s),", t.session.Presence)+
		" e.epoch, e.system, e.database, e.sequence, e.timeline, to_jsonb(e) ->> 'protocol' FROM "+t.schema.table()+" e")
	if err != nil {
		return err
	}
	switch len(r.Rows) {
	case 0:
		return fmt.Errorf("%s has no row, and a new one would let tokens fall: the next try works when a restore that is under way has ended; "+
			"otherwise insert the row with a higher epoch (docs/postgres.md, \"Raising the epoch\")", t.schema.table())
	case 1:
	default:
		return fmt.Errorf("%s has %d rows, and must have one", t.schema.table(), len(r.Rows))
	}
	*now = origin{system: r.Int(0, 0), database: r.Int(0, 1), sequence: r.Int(0, 2), timeline: r.Int(0, 3)}
	*present = r.Bool(0, 5)
	*row = epochRow{epoch: r.Int(0, 6), origin: origin{system: r.Int(0, 7), database: r.Int(0, 8), sequence: r.Int(0, 9), timeline: r.Int(0, 10)}}
	t.serverID = serverID{*now, r.Int(0, 4)}
	return t.schema.checkProtocol(r.Value(0, 11))
}

// timelineOfServer is SQL: the timeline to which the server writes. A standby has none to write to.
const timelineOfServer = "('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int8"

// startOfServer is SQL: when the server was started. It distinguishes a server from its copies, and
// from earlier runs of the same server. It is a number, because the text of a time depends on
// settings.
const startOfServer = "(extract(epoch FROM pg_catalog.pg_postmaster_start_time()) OPERATOR(pg_catalog.*) 1000000)::bigint"

// beginEpoch raises the epoch where it has to be, before any token is taken.
func (t *tokenSource) beginEpoch(ctx context.Context, row epochRow, now origin) error {
	for range 10 {
		next := row.at(now)
		if next == row {
			t.epoch = row.epoch
			t.seq = fmt.Sprintf("%d::regclass", now.sequence)
			t.next = "nextval(" + t.seq + ")"
			return nil
		}
		if _, err := makeToken(next.epoch, 1); err != nil {
			return err
		}
		if row.epoch == 0 {
			if err := t.known.mayBegin(now.timeline, errNotBegun); err != nil {
				return fmt.Errorf("%s: %w", t.schema.table(), err)
			}
		}
		// On the standbys too, if there are synchronous ones: a standby that is promoted should
		// know of it. If another connection has just done the same, there is nothing left to
		// update.
		for _, sql := range []string{
			"SET synchronous_commit = on",
			fmt.Sprintf("UPDATE %s SET epoch = %d, system = %d, database = %d, sequence = %d, timeline = %d, "+noteWriter+" WHERE epoch = %d AND timeline = %d",
				t.schema.table(), next.epoch, next.system, next.database, next.sequence, next.timeline, row.epoch, row.timeline),
			"SET synchronous_commit = local",
		} {
			_, err := t.exec(ctx, sql)
			if errors.Is(err, locker.ErrNoAnswer) {
				err = fmt.Errorf("the epoch of the fencing tokens is not written yet (if synchronous_standby_names is set, a standby must answer): %w", err)
			}
			if err != nil {
				return err
			}
		}
		r, err := t.exec(ctx, "SELECT epoch, system, database, sequence, timeline FROM "+t.schema.table())
		if err != nil {
			return err
		}
		row = epochRow{epoch: r.Int(0, 0), origin: origin{system: r.Int(0, 1), database: r.Int(0, 2), sequence: r.Int(0, 3), timeline: r.Int(0, 4)}}
	}
	return errors.New("the epoch of the fencing tokens is changed by other clients again and again")
}
