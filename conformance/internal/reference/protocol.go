package reference

import (
	"errors"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// verb is what a request asks for.
type verb int

const (
	acquire verb = iota + 1
	renew        // of locks and of places in queues
	release      // of a lock or a place, or of what may still be on its way
	current      // the token of the holder
)

// request is a message to the service. It has values only: the service may execute it late, twice,
// or never, and long after the caller has gone.
type request struct {
	verb    verb
	session string         // the client, whom the service notifies
	claims  []claim        // one; in a renewal, one for each lock
	noWait  bool           // acquire: don't queue
	sent    driver.Instant // the client's stamp, which the service only returns
}

// claim is what a request says of one acquisition.
type claim struct {
	key   string
	owner string
	ttl   time.Duration
}

// reply is the service's message for one request.
type reply struct {
	err     error // nothing was executed
	answers []answer
}

// answer is about one claim.
type answer struct {
	state state
	token locker.Token
}

// state is the state of an acquisition after a request was executed.
type state int

const (
	gone    state = iota // nothing of it exists, and nothing will
	refused              // somebody else has the lock, and so it is gone
	queued               // it has a place in the queue
	granted              // it has the lock
)

// notice is a message that the service sends by itself.
type notice struct {
	key   string
	owner string

	token locker.Token   // the lock is granted; 0: the acquisition has ended
	sent  driver.Instant // of a grant: the stamp of the refresh from which the TTL counts
	cause error          // of an end
}

var (
	errExpired = errors.New("the TTL has passed on the service")
	errRevoked = errors.New("an operator has removed the lock")
	errGone    = errors.New("the service knows nothing of this owner")
	errRefused = errors.New("connection refused")
	errReset   = errors.New("connection was reset")
	errClosed  = errors.New("the client is closed")
)
