package membackend

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// Server is a lock service in memory, for the Lockers that are made with [WithServer]. Each request is carried out
// under one mutex, as a script of Redis or a transaction of a database would be. Its methods make it fail in the ways
// in which real services fail. The zero Server is ready, and a Server needs no closing.
type Server struct {
	mu       sync.Mutex
	locks    map[string]*entry // the names about which there is something to know
	last     locker.Token      // see mint
	conns    map[*conn]struct{}
	requests int64

	// What faults.go has done to it.
	paused   bool
	backlog  []*request // those that arrived meanwhile
	failing  error
	refusing error // renewals only
}

// NewServer returns a service without any locks.
func NewServer() *Server { return new(Server) }

// acquisition is what every request says of itself, and whom the service can tell about it.
type acquisition struct {
	name, owner string
	ttl         time.Duration
	client      *client
	to          receiver
}

// receiver is the end of a client at which the service's pushes arrive. They are called under the service's mutex, so
// that they arrive in the order in which things happened.
type receiver interface {
	granted(token locker.Token, base driver.Instant)
	lost(cause error)
}

// entry is one name. While its queue is not empty it has a holder, but for the time between two statements.
type entry struct {
	name    string
	holder  *acquisition // nil: the lock is free
	token   locker.Token
	expires driver.Instant // of the holder
	queue   []*waiter      // first come, first served
	tombs   map[string]driver.Instant

	timer *time.Timer    // sweeps the entry
	wake  driver.Instant // when it does
}

// waiter is a place in a queue. A client keeps it alive by renewing it, as it does with a lock.
type waiter struct {
	*acquisition
	conn    *conn          // the place goes with its connection
	sent    driver.Instant // the client's stamp on the last refresh: the service hands it back and reads nothing in it
	expires driver.Instant // that refresh + TTL: the waiter is dead then
}

// standing is where an acquisition stands when a request has been carried out.
type standing int

const (
	gone    standing = iota // nothing of it stands
	refused                 // somebody else has the lock, and nothing of it stands
	queued                  // it has a place in the queue
	granted                 // it has the lock
)

type answer struct {
	standing standing
	token    locker.Token // when granted
}

// acquire is the only operation that creates. It may be repeated: an owner that holds or queues already is told so
// again, with its TTL started anew.
func (s *Server) acquire(a *acquisition, noWait bool, on *conn, sent, now driver.Instant) answer {
	e := s.entry(a.name)
	defer s.tidy(e)
	s.advance(e, now)
	if until, buried := e.tombs[a.owner]; buried && now < until {
		return answer{standing: gone}
	}
	expires := now.Add(a.ttl)
	if w := e.place(a); w != nil {
		w.sent, w.expires = sent, expires
		return answer{standing: queued}
	}
	switch {
	case e.heldBy(a):
		e.expires = expires
	case e.holder == nil: // and nobody waits, because a lock with waiters is never free
		s.grant(e, a, expires)
	case noWait:
		return answer{standing: refused}
	default:
		e.queue = append(e.queue, &waiter{acquisition: a, conn: on, sent: sent, expires: expires})
		s.watch(e, expires, now)
		return answer{standing: queued}
	}
	s.watch(e, expires, now)
	return answer{granted, e.token}
}

// renew starts the TTL of a lock or a place anew, and never creates one. A waiter whose push was lost learns here that
// it has the lock.
func (s *Server) renew(a *acquisition, sent, now driver.Instant) answer {
	e := s.locks[a.name]
	if e == nil {
		return answer{standing: gone}
	}
	defer s.tidy(e)
	s.advance(e, now)
	if e.heldBy(a) {
		e.expires = now.Add(a.ttl)
		return answer{granted, e.token}
	}
	if w := e.place(a); w != nil {
		w.sent, w.expires = sent, now.Add(a.ttl)
		return answer{standing: queued}
	}
	return answer{standing: gone}
}

// release removes whatever stands of a, and hands the lock over when a had it. If there is nothing, the request of a's
// acquire may still be on its way: it would make a lock that nobody knows of. So its owner gets a tombstone, which
// acquire looks for. The tombstone lasts for a TTL, and so would the ghost of a request that was on its way for longer.
func (s *Server) release(a *acquisition, now driver.Instant) {
	e := s.entry(a.name)
	defer s.tidy(e)
	s.advance(e, now)
	if e.heldBy(a) {
		e.holder = nil
		s.advance(e, now)
		return
	}
	if e.leave(func(w *waiter) bool { return w.owner == a.owner }) {
		return
	}
	if e.tombs == nil {
		e.tombs = make(map[string]driver.Instant)
	}
	e.tombs[a.owner] = now.Add(a.ttl)
	s.watch(e, e.tombs[a.owner], now)
}

// advance is how every request begins: a lock whose TTL has passed is taken from its holder, and one that is free goes
// to the first waiter that is alive. So nobody can take it past the queue.
func (s *Server) advance(e *entry, now driver.Instant) {
	if e.holder != nil && now >= e.expires {
		s.revoke(e, errExpired)
	}
	for e.holder == nil && len(e.queue) > 0 {
		w := e.queue[0]
		e.queue = slices.Delete(e.queue, 0, 1)
		if now >= w.expires {
			continue
		}
		// The waiter can't prove now that it is alive, so its lease hangs on its last refresh: it ends a TTL after
		// that, and the push says which refresh it was, because the waiter's deadline counts from its send time.
		s.grant(e, w.acquisition, w.expires)
		w.client.push(func() { w.to.granted(e.token, w.sent) })
	}
}

func (s *Server) grant(e *entry, a *acquisition, expires driver.Instant) {
	e.holder, e.token, e.expires = a, s.mint(), expires
}

// revoke takes the lock from its holder, and tells it.
func (s *Server) revoke(e *entry, cause error) {
	a := e.holder
	e.holder = nil
	a.client.push(func() { a.to.lost(cause) })
}

// mint returns the next fencing token: larger than the last, and at least the clock in µs, so that tokens rise over the
// loss of all data too. The last token is one number for all names; thus an idle name leaves nothing behind. A service
// that has to keep one a name may drop it as soon as its clock has passed it, because what the clock gives from then on
// is larger; tokens start at the clock and rise by one, so that is at once unless there is more than one acquisition a
// µs, or the clock is set back.
func (s *Server) mint() locker.Token {
	s.last = max(s.last+1, clock())
	return s.last
}

func clock() locker.Token { return locker.Token(time.Now().UnixMicro()) }

var (
	errExpired = errors.New("its TTL has passed on the service")
	errRevoked = errors.New("the service was told to remove it")
	errGone    = errors.New("the service knows nothing of it")
)

func (e *entry) heldBy(a *acquisition) bool { return e.holder != nil && e.holder.owner == a.owner }

func (e *entry) place(a *acquisition) *waiter {
	i := slices.IndexFunc(e.queue, func(w *waiter) bool { return w.owner == a.owner })
	if i < 0 {
		return nil
	}
	return e.queue[i]
}

// leave takes waiters out of the queue, and reports whether there was one.
func (e *entry) leave(who func(*waiter) bool) bool {
	before := len(e.queue)
	e.queue = slices.DeleteFunc(e.queue, who)
	return len(e.queue) < before
}
