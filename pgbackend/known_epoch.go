package pgbackend

import (
	"errors"
	"fmt"
)

// What a Locker does with the largest epoch that one of its connections has read.
//
// A connection whose tokens are of an earlier epoch may lead to a former primary: see isReplaced.
//
// A schema that is missing is made only where it begins with a later epoch, which is the number of the
// timeline there. Otherwise it was dropped, as a rule, and a restore is about to bring it back. A schema
// that is made before that lets tokens fall, and the restore doesn't replace it: it adds a second row to
// the table of the epoch, or fails to add its own. But a replica that has taken over may know nothing of
// the schema, because it lagged. Its timeline is a later one, so the schema is made there.

// knownEpoch is the largest epoch that this Locker knows of.
type knownEpoch struct{ maximum }

// mayBegin returns an error if a schema that is made on this timeline begins with an epoch that isn't
// later than the known one.
func (k *knownEpoch) mayBegin(timeline int64) error {
	if known := k.Load(); timeline <= known {
		return fmt.Errorf("this Locker knows of its epoch %d, and %w", known, errSchemaGone)
	}
	return nil
}

var errSchemaGone = errors.New("it isn't made again, because tokens would fall or repeat; " +
	"the next try works when a restore that is under way has ended; otherwise make it with a higher epoch (docs/postgres.md, \"Raising the epoch\")")
