package pgbackend

import (
	"errors"
	"fmt"
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
