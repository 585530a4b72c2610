package pgbackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencedlock/locker"
)

// What a Locker does with the largest epoch that one of its connections has read, or has begun.
//
// A connection whose tokens are of an earlier epoch may lead to a former primary: see isOfOldEpoch. It
// may also lead to the same server, where the epoch was raised since. Both are the end of requests on it,
// and neither is the end of its leases. A Locker that is opened knows nothing of either.
//
// A schema that is missing is made only where it begins with a later epoch, which is the number of the
// timeline there. Otherwise it was dropped, as a rule, and a restore is about to bring it back. A schema
// that is made before that lets tokens fall, and the restore doesn't replace it: it adds a second row to
// the table of the epoch, or fails to add its own. But a replica that has taken over may know nothing of
// the schema, because it lagged. Its timeline is a later one, so the schema is made there.
//
// The same holds where the schema exists, and no epoch has begun in it: a dump from before the first
// Locker was restored, as a rule.

// knownEpoch is the largest epoch that this Locker knows of.
type knownEpoch struct{ maximum }

// mayBegin returns an error if a first epoch, which has the number of this timeline, isn't later than
// the known one. consequence is a part of that error.
//
// Another connection may learn of a later epoch between this look and what follows. Then a schema is made, or
// an epoch begins, as by a Locker that is opened at that moment. But if the known epoch is the later one by
// then, this Locker grants nothing there: see isOfOldEpoch.
func (k *knownEpoch) mayBegin(timeline int64, consequence error) error {
	if known := k.Load(); timeline <= known {
		return fmt.Errorf("this Locker knows of its epoch %d, and %w", known, consequence)
	}
	return nil
}

var (
	errSchemaGone = errors.New("what is missing isn't made again, because a restore may be about to bring it back; " +
		"the next try works when that has ended; otherwise make it with a higher epoch (docs/postgres.md, \"Raising the epoch\")")
	errNotBegun = errors.New("no epoch has begun there: tokens would fall or repeat; " +
		"it was restored from before the first Locker, maybe, or made again; raise the epoch by hand (docs/postgres.md, \"Raising the epoch\")")
)

// errOldEpoch means that the connection leads to a server that was replaced, or was made before the
// epoch was raised by hand.
var errOldEpoch = errors.New("the fencing tokens are of an epoch that is over")

// isOfOldEpoch reports whether this Locker knows of a later epoch than the one of this connection. It
// may lead to a former primary, whose locks keep out no client of the new one. Then nothing more is
// asked there. It isn't enough to refuse what is granted: a lock may be held there, and free on the
// new primary.
func (c *conn) isOfOldEpoch() bool { return c.tokens.epoch < c.d.knownEpoch.Load() }

// giveUp has what is to come go to another connection: the cause is no loss of the leases on this
// one. Where a lock is being acquired, there may be a lease at any moment.
func (c *conn) giveUp(cause error) {
	if c.resign() {
		c.End(cause)
	}
}

// admit makes a token of a value that the sequence has given on this connection. If a later epoch is known
// by now, it refuses: this may be a former primary, and a lock granted there excludes nobody on the new one.
func (c *conn) admit(ctx context.Context, floor locker.Token, value int64) (locker.Token, error) {
	token, err := c.tokens.admit(ctx, floor, value)
	if err == nil && c.isOfOldEpoch() {
		err = errOldEpoch
	}
	switch {
	case err == nil:
		c.d.largest.saw(token)
	case errors.Is(err, errOldEpoch):
		c.giveUp(errOldEpoch) // the next connection reads the epoch again
		return 0, err
	}
	return token, err
}
