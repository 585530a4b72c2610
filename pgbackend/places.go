package pgbackend

import (
	"errors"
	"sync"
)

// A Locker makes a schema that is missing, but not where it has seen the schema before. There it was
// dropped, and as a rule a restore is about to bring it back. A schema that is made before that begins
// with an early epoch, and the restore doesn't replace it: it adds a second row to the table of the
// epoch, or fails to add its own.
//
// A replica that has taken over may know nothing of the schema, because it lagged. It has another
// timeline, which is the epoch that the schema begins with there, so there the schema is made.

// place is a server with its history so far. A copy of the server, or a replica, is the same place
// until it is promoted.
type place struct {
	system   int64 // the system identifier
	timeline int64
}

// places are where a Locker has seen its schema.
type places struct {
	mu   sync.Mutex
	seen map[place]struct{}
}

func (p *places) note(at place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == nil {
		p.seen = make(map[place]struct{}, 1)
	}
	p.seen[at] = struct{}{}
}

func (p *places) has(at place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, seen := p.seen[at]
	return seen
}

// errGone says that the schema was there and is not.
var errGone = errors.New("it was complete when this Locker connected before, and isn't made again, because tokens would fall or repeat; " +
	"the next try works when a restore that is under way has ended; otherwise make it with a higher epoch (docs/postgres.md, \"Raising the epoch\")")
