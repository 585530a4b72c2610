package kit

import (
	"context"
	"time"
)

// Session is what the leases of one TTL are attached to: a session of the service, or a connection
// whose end ends them. It is a pointer.
type Session interface {
	comparable

	// Usable is false when the session is over for new leases: Join then opens another one. Usable must
	// not call [Sessions].
	Usable() bool

	// Close ends the session, with ctx or a time limit of its own. It is called when no caller uses the
	// session any more, and by [Sessions.Close], which may come before the session is open. It may be
	// called twice, also at the same time.
	Close(ctx context.Context) error
}

// SessionOptions say what the sessions of a driver are. No mutex of [Sessions] is held when these
// functions are called, except for New.
type SessionOptions[S Session] struct {
	Tasks *Tasks
	Max   int    // sessions at the same time
	Each  string // what each TTL needs, for the text of the refusal: "an etcd lease of its own"

	// New makes a session without asking the service.
	New func(ttl time.Duration) S

	// Open opens a session, as a task: ctx is no caller's, and Open sets its own time limit. After an
	// error there is nothing to close. nil: a session is open from its beginning.
	Open func(ctx context.Context, s S) error

	// Transient reports whether an error of Open may be over by now. A caller that has joined an opening
	// of another caller then begins a new one. nil: no error is.
	Transient func(error) bool

	// Slow says why the opening of a session has taken so long, when the context of a caller has ended.
	// nil: [locker.ErrNoAnswer], or the context's cause.
	Slow func(s S) error
}
