package pgbackend

import (
	"errors"
	"sync"
)

// A Locker makes a schema that is missing, but not where it has seen the schema before. It was dropped
// there, and as a rule a restore is about to bring it back. A schema that is made before that begins
// with an early epoch, and the restore doesn't replace it: it adds a second row to the table of the
// epoch, or fails to add its own.
//
// A replica that has taken over may know nothing of the schema, because it lagged. Its timeline is
// another one, and the epoch of a new schema begins with that. So the schema is made there.

// history is a server with its history so far. A copy of the server, or a replica, has the same one
// until it is promoted.
type history struct {
	system   int64 // the system identifier
	timeline int64
}

// seenSchemas are the histories in which a Locker has seen its schema.
type seenSchemas struct {
	mu sync.Mutex
	in map[history]struct{}
}

func (s *seenSchemas) note(h history) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.in == nil {
		s.in = make(map[history]struct{}, 1)
	}
	s.in[h] = struct{}{}
}

func (s *seenSchemas) has(h history) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, seen := s.in[h]
	return seen
}

// errSchemaGone says that the schema was there and is not.
var errSchemaGone = errors.New("it was complete when this Locker connected before, and isn't made again, because tokens would fall or repeat; " +
	"the next try works when a restore that is under way has ended; otherwise make it with a higher epoch (docs/postgres.md, \"Raising the epoch\")")
