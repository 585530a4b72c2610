package pgbackend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/fencedlock/locker/internal/pgsession"
)

// settle takes the sign of life, and finds out where the sequence is and which epoch it is in.
func (c *conn) settle(ctx context.Context) error {
	for {
		life := 1<<31 | rand.Uint32() // 0 is the turn, and the mark is an OID; few servers have come that far
		c.Presence = lifePair(life)
		var row epochRow
		var now origin
		alive := false
		if err := c.readEpoch(ctx, &row, &now, &alive); err != nil {
			return err
		}
		if int64(life) == now.sequence {
			return errors.New("the sign of life is the mark of tokens, by chance: this session must end")
		}
		if alive { // else somebody has this one
			return c.beginEpoch(ctx, row, now)
		}
	}
}

func (c *conn) readEpoch(ctx context.Context, row *epochRow, now *origin, alive *bool) error {
	r, err := c.exec(ctx, "SELECT (SELECT system_identifier FROM pg_control_system()),"+
		" (SELECT oid FROM pg_database WHERE datname = current_database()),"+
		fmt.Sprintf(" %s::regclass::oid,", pgsession.Literal(c.d.sequence()))+
		" ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int8,"+
		" "+startOfServer+","+
		fmt.Sprintf(" pg_try_advisory_lock(%s),", c.Presence)+
		" e.epoch, e.system, e.database, e.sequence, e.timeline, to_jsonb(e) ->> 'protocol' FROM "+c.d.table()+" e")
	if err != nil {
		return err
	}
	if len(r.Rows) != 1 {
		return fmt.Errorf("%s has %d rows, and must have one", c.d.table(), len(r.Rows))
	}
	*now = origin{system: r.Int(0, 0), database: r.Int(0, 1), sequence: r.Int(0, 2), timeline: r.Int(0, 3)}
	*alive = r.Bool(0, 5)
	*row = epochRow{epoch: r.Int(0, 6), origin: origin{system: r.Int(0, 7), database: r.Int(0, 8), sequence: r.Int(0, 9), timeline: r.Int(0, 10)}}
	c.place = place{*now, r.Int(0, 4)}
	return c.checkProtocol(r.Value(0, 11))
}

// The protocols that this version can be used with. In a schema of protocol 1 there may be versions that end a move with the lock in shared
// mode on the shared connection, and in one of protocol 2 there are none. Both exclude each other as long as nobody asks for shared mode.
const (
	oldestProtocol = 1
	newestProtocol = 2
)

// checkProtocol refuses a schema that belongs to a version of which this one knows nothing. A schema that was made before there was a
// protocol has no such column (the value is ""), and is of protocol 1: Migration adds the column, and a Locker doesn't, because that needs
// the table's owner and a lock that keeps all new connections waiting.
func (c *conn) checkProtocol(value string) error {
	if value == "" {
		return nil
	}
	if n, err := strconv.Atoi(value); err == nil && n >= oldestProtocol && n <= newestProtocol {
		return nil
	}
	return fmt.Errorf("%w: the schema %s has protocol %s, and this version of locker knows protocols %d to %d; use a newer version",
		errors.ErrUnsupported, pgsession.Quoted(c.d.schema), value, oldestProtocol, newestProtocol)
}

// startOfServer tells a server from its copies, and from its lives before. It is a number, as the text of a moment depends on settings.
const startOfServer = "(extract(epoch FROM pg_catalog.pg_postmaster_start_time()) OPERATOR(pg_catalog.*) 1000000)::bigint"

// beginEpoch raises the epoch where it has to be, before any token is taken.
func (c *conn) beginEpoch(ctx context.Context, row epochRow, now origin) error {
	for range 10 {
		next := row.at(now)
		if next == row {
			c.epoch = row.epoch
			c.seq = fmt.Sprintf("%d::regclass", now.sequence)
			c.next = "nextval(" + c.seq + ")"
			return nil
		}
		if _, err := token(next.epoch, 1); err != nil {
			return err
		}
		// On the standbys too, if there are synchronous ones: who is promoted should know of it. Others who have just done the same
		// leave nothing to update.
		for _, sql := range []string{
			"SET synchronous_commit = on",
			fmt.Sprintf("UPDATE %s SET epoch = %d, system = %d, database = %d, sequence = %d, timeline = %d, "+writing+" WHERE epoch = %d AND timeline = %d",
				c.d.table(), next.epoch, next.system, next.database, next.sequence, next.timeline, row.epoch, row.timeline),
			"SET synchronous_commit = local",
		} {
			if _, err := c.exec(ctx, sql); err != nil {
				return err
			}
		}
		r, err := c.exec(ctx, "SELECT epoch, system, database, sequence, timeline FROM "+c.d.table())
		if err != nil {
			return err
		}
		row = epochRow{epoch: r.Int(0, 0), origin: origin{system: r.Int(0, 1), database: r.Int(0, 2), sequence: r.Int(0, 3), timeline: r.Int(0, 4)}}
	}
	return errors.New("the epoch of the fencing tokens doesn't come to rest: others change it all the time")
}
