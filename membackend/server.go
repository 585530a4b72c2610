package membackend

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// Server is a lock service in memory, for the Lockers that are made with [WithServer]. Each request
// is executed under one mutex, as a script of Redis or a transaction of a database would be. Its
// methods make it fail in the ways in which real services fail. The zero Server is ready, and a
// Server needs no closing.
type Server struct {
	mu       sync.Mutex
	locks    map[string]*entry // those that are held, waited for, or have tombstones, by keyOf
	last     locker.Token      // see mint
	conns    map[*conn]struct{}
	requests int64

	// The faults of faults.go.
	paused     bool
	backlog    []*request // those that arrived meanwhile
	requestErr error
	renewErr   error // renewals only
}

// NewServer returns a service without any locks.
func NewServer() *Server { return new(Server) }

// acquisition is what every request says of itself, and the client that the service notifies.
type acquisition struct {
	name, owner string
	slot        int
	ttl         time.Duration
	label       driver.Label
	client      *client
	to          receiver
}

// receiver is the end of a client at which the service's pushes arrive. Its methods are called
// under the service's mutex, so that pushes arrive in the order of the events.
type receiver interface {
	granted(token locker.Token, base driver.Instant)
	lost(cause error)
	broken(breach locker.Breach)
}

// entry is one lock or slot. While its queue is not empty it has a holder, except between two statements.
type entry struct {
	key, name  string
	slot       int
	holder     *acquisition // nil: the lock is free
	token      locker.Token
	expires    driver.Instant // of the holder
	breach     *locker.Breach // marks a holder whose lease isn't renewed any more; nil: it is
	queue      []*waiter      // first come, first served
	tombstones map[string]tombstone

	timer *time.Timer    // sweeps the entry
	wake  driver.Instant // when it does
}

// tombstone stops a request of an owner that is still on its way.
type tombstone struct {
	until  driver.Instant
	breach *locker.Breach // why the owner has lost the lock; nil: it was released
}

// waiter is a place in a queue. A client renews it, as it does with a lock.
type waiter struct {
	*acquisition
	conn    *conn          // the place ends with its connection
	sent    driver.Instant // the client's stamp of the last refresh, which the service only returns
	expires driver.Instant // that refresh + TTL: the waiter is ignored then
}

// state is the state of an acquisition after a request was executed.
type state int

const (
	gone    state = iota // nothing of it exists
	refused              // somebody else has the lock, and nothing of it exists
	queued               // it has a place in the queue
	granted              // it has the lock
	broken               // it has the lock, which an operator takes away
)

type answer struct {
	state  state
	token  locker.Token   // when granted
	breach *locker.Breach // when broken; when gone, if that is why
}

// acquire is the only operation that creates. It may be repeated: for an owner that holds the lock
// or is queued already, it gives the same answer and restarts the TTL.
func (s *Server) acquire(a *acquisition, noWait bool, on *conn, sent, now driver.Instant) answer {
	e := s.entry(a)
	defer s.tidy(e)
	s.advance(e, now)
	if t, found := e.tombstones[a.owner]; found && now < t.until {
		return answer{state: gone, breach: t.breach}
	}
	expires := now.Add(a.ttl)
	if w := e.waiterOf(a); w != nil {
		w.sent, w.expires = sent, expires
		return answer{state: queued}
	}
	switch {
	case e.heldBy(a) && e.breach != nil:
		return answer{state: broken, breach: e.breach}
	case e.heldBy(a):
		e.expires = expires
	case e.holder == nil: // and nobody waits, because a lock with waiters is never free
		s.grant(e, a, expires)
	case noWait:
		return answer{state: refused}
	default:
		e.queue = append(e.queue, &waiter{acquisition: a, conn: on, sent: sent, expires: expires})
		s.watch(e, expires, now)
		return answer{state: queued}
	}
	s.watch(e, expires, now)
	return answer{state: granted, token: e.token}
}

// renew restarts the TTL of a lock or a place, and never creates one. A waiter whose push was lost
// learns here that it has the lock.
func (s *Server) renew(a *acquisition, sent, now driver.Instant) answer {
	e := s.locks[keyOf(a.name, a.slot)]
	if e == nil {
		return answer{state: gone}
	}
	defer s.tidy(e)
	s.advance(e, now)
	if e.heldBy(a) && e.breach != nil {
		return answer{state: broken, breach: e.breach}
	}
	if e.heldBy(a) {
		e.expires = now.Add(a.ttl)
		return answer{state: granted, token: e.token}
	}
	if w := e.waiterOf(a); w != nil {
		w.sent, w.expires = sent, now.Add(a.ttl)
		return answer{state: queued}
	}
	return answer{state: gone, breach: e.tombstones[a.owner].breach}
}

// release removes whatever exists of a, and hands the lock over when a had it. If nothing exists,
// the request of a's acquire may still be on its way, and would create a lock that nobody knows of.
// So a's owner gets a tombstone, which acquire looks for. The tombstone lasts for a TTL. A request
// that is on its way for longer than that would create a lock that lasts for a TTL at most.
func (s *Server) release(a *acquisition, now driver.Instant) {
	e := s.entry(a)
	defer s.tidy(e)
	s.advance(e, now)
	if e.heldBy(a) {
		e.holder = nil
		s.advance(e, now)
		return
	}
	if e.removeWaiters(func(w *waiter) bool { return w.owner == a.owner }) {
		return
	}
	s.entomb(e, a, nil, now)
}

func (s *Server) entomb(e *entry, a *acquisition, breach *locker.Breach, now driver.Instant) {
	if e.tombstones == nil {
		e.tombstones = make(map[string]tombstone)
	}
	until := now.Add(a.ttl)
	e.tombstones[a.owner] = tombstone{until, breach}
	s.watch(e, until, now)
}

// advance is the beginning of every request: a lock whose TTL has passed is taken from its holder,
// and a free lock is given to the first waiter that is alive. So nobody can overtake the queue.
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
		// Nothing proves now that the waiter is alive, so its lease rests on its last refresh: it
		// ends a TTL after that. The push says which refresh it was, because the waiter's deadline
		// counts from its send time.
		s.grant(e, w.acquisition, w.expires)
		w.client.push(func() { w.to.granted(e.token, w.sent) })
	}
}

func (s *Server) grant(e *entry, a *acquisition, expires driver.Instant) {
	e.holder, e.token, e.expires, e.breach = a, s.mint(), expires, nil
}

// revoke takes the lock from its holder, and notifies the holder.
func (s *Server) revoke(e *entry, cause error) {
	a := e.holder
	e.holder = nil
	a.client.push(func() { a.to.lost(cause) })
}

// mint returns the next fencing token: larger than the last, and at least the clock in µs, so that
// tokens rise even over the loss of all data. The last token is one number for all names, so an
// idle name leaves nothing behind. A service that has to keep a last token for each name may delete
// it as soon as its clock has passed it, because what the clock gives from then on is larger.
// Tokens start at the clock and rise by one, so that is at once unless there is more than one
// acquisition a µs or the clock is set back.
func (s *Server) mint() locker.Token {
	s.last = max(s.last+1, clock())
	return s.last
}

func (s *Server) lastToken() locker.Token {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

func clock() locker.Token { return locker.Token(time.Now().UnixMicro()) }

var (
	errExpired = errors.New("the TTL of the lock has passed on the service")
	errRevoked = errors.New("the lock was removed by Expire")
	errGone    = errors.New("the service knows no lock or place of this owner")
	errOver    = fmt.Errorf("%w: %w", locker.ErrLost, errGone)
)

func (e *entry) heldBy(a *acquisition) bool { return e.holder != nil && e.holder.owner == a.owner }

func (e *entry) waiterOf(a *acquisition) *waiter {
	i := slices.IndexFunc(e.queue, func(w *waiter) bool { return w.owner == a.owner })
	if i < 0 {
		return nil
	}
	return e.queue[i]
}

// removeWaiters takes waiters out of the queue, and reports whether there was one.
func (e *entry) removeWaiters(who func(*waiter) bool) bool {
	before := len(e.queue)
	e.queue = slices.DeleteFunc(e.queue, who)
	return len(e.queue) < before
}
