package kit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fencedlock/locker"
)

// Sessions are the sessions of a driver, one for each TTL in use. All callers that want one TTL share
// its session, which is opened once. A session that no caller uses stays, until another TTL needs its
// place.
//
// Its goroutines are tasks of [SessionOptions.Tasks]. The driver must close these Tasks.
type Sessions[S Session] struct {
	o SessionOptions[S]

	mu     sync.Mutex
	closed bool
	byTTL  map[time.Duration]*entry[S]
	all    map[S]*entry[S] // those that were not closed yet
}

// entry is a session, from when its opening has begun.
type entry[S Session] struct {
	session S
	ttl     time.Duration
	users   int // also those that wait for the opening
	opened  chan struct{}
	err     error // of the opening, once opened is closed
}

// NewSessions makes Sessions without any.
func NewSessions[S Session](o SessionOptions[S]) *Sessions[S] {
	return &Sessions[S]{o: o, byTTL: make(map[time.Duration]*entry[S]), all: make(map[S]*entry[S])}
}

// Join returns the session for a TTL, which is opened if there is none. The caller uses it until
// [Sessions.Leave]; after an error there is nothing to leave. ctx covers the caller's waiting: the
// opening goes on without it.
//
// When as many TTLs as possible are in use, the error matches [locker.ErrTooManyTTLs]. After Close it is
// [locker.ErrClosed].
func (s *Sessions[S]) Join(ctx context.Context, ttl time.Duration) (S, error) {
	for {
		e, begun, err := s.claim(ttl)
		if err != nil {
			return *new(S), err
		}
		select {
		case <-e.opened:
		case <-ctx.Done():
			err = s.slow(ctx, e.session)
			s.Leave(e.session)
			return *new(S), err
		}
		switch {
		case e.err == nil && e.session.Usable():
			return e.session, nil
		case e.err == nil: // it ended just now
			s.Leave(e.session)
		case begun || s.o.Transient == nil || !s.o.Transient(e.err):
			return *new(S), e.err
		}
	}
}

// Any joins any session that is open, for what can be asked on each of them; the caller leaves it as
// after Join. It is false when none is open. A session that others use comes first: a further TTL can
// take the place of a session that nobody uses, and of no other.
func (s *Sessions[S]) Any() (S, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *entry[S]
	for _, e := range s.byTTL {
		if !s.closed && e.isOpen() && e.session.Usable() && (found == nil || e.users > 0) {
			found = e
		}
	}
	if found == nil {
		return *new(S), false
	}
	found.users++
	return found.session, true
}

// Leave is called once for each session that was joined, when nothing is attached to it for this
// caller any more.
func (s *Sessions[S]) Leave(session S) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.all[session]
	if e == nil { // its opening has failed
		return
	}
	if e.users--; e.users == 0 && e.isOpen() && !session.Usable() {
		s.end(e)
	}
}

// Close ends all sessions, at the same time, and refuses further ones. ctx covers all of it. The error
// joins the sessions' errors.
func (s *Sessions[S]) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	all := slices.Collect(maps.Keys(s.all))
	s.mu.Unlock()
	errs := make([]error, len(all))
	var closing sync.WaitGroup
	for i, session := range all {
		closing.Go(func() { errs[i] = session.Close(ctx) })
	}
	closing.Wait()
	return errors.Join(errs...)
}

func (s *Sessions[S]) slow(ctx context.Context, session S) error {
	if s.o.Slow != nil {
		return s.o.Slow(session)
	}
	return Overdue(context.Cause(ctx))
}

// claim makes the caller a user of the session for a TTL, and begins to open it if there is none.
func (s *Sessions[S]) claim(ttl time.Duration) (e *entry[S], begun bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false, locker.ErrClosed
	}
	if e = s.byTTL[ttl]; e != nil && e.isOpen() && !e.session.Usable() {
		delete(s.byTTL, ttl) // it ends with its last user
		if e.users == 0 {
			s.end(e)
		}
		e = nil
	}
	if e != nil {
		e.users++
		return e, false, nil
	}
	if len(s.byTTL) >= s.o.Max && !s.evict() {
		return nil, false, s.refusal(ttl)
	}
	e = &entry[S]{session: s.o.New(ttl), ttl: ttl, users: 1, opened: make(chan struct{})}
	if s.o.Open == nil {
		close(e.opened)
	} else if !s.o.Tasks.Go(func(ctx context.Context) { s.open(ctx, e) }) {
		return nil, false, locker.ErrClosed
	}
	s.byTTL[ttl], s.all[e.session] = e, e
	return e, true, nil
}

// open opens a session for all that wait for it.
func (s *Sessions[S]) open(ctx context.Context, e *entry[S]) {
	err := s.o.Open(ctx, e.session)
	s.mu.Lock()
	closed := s.closed
	if err != nil {
		e.err = err
		delete(s.byTTL, e.ttl)
		delete(s.all, e.session)
	}
	close(e.opened)
	s.mu.Unlock()
	if closed && err == nil { // Close may have come before there was something to close
		_ = e.session.Close(ctx)
	}
}

// evict ends a session that nobody uses.
func (s *Sessions[S]) evict() bool {
	for _, e := range s.byTTL {
		if e.users == 0 && e.isOpen() {
			s.end(e)
			return true
		}
	}
	return false
}

// end closes a session that nobody uses, as a task. Once the driver is being closed, Close does it.
func (s *Sessions[S]) end(e *entry[S]) {
	if s.byTTL[e.ttl] == e {
		delete(s.byTTL, e.ttl)
	}
	if s.closed {
		return
	}
	s.o.Tasks.Go(func(ctx context.Context) {
		_ = e.session.Close(ctx) // what isn't confirmed ends with its TTL
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, e.session)
	})
}

func (s *Sessions[S]) refusal(ttl time.Duration) error {
	var inUse []string
	for _, ttl := range slices.Sorted(maps.Keys(s.byTTL)) {
		inUse = append(inUse, ttl.String())
	}
	return fmt.Errorf(
		"%w: TTL %v: want one of those in use (%s), because each TTL needs %s and there are at most %d; use fewer TTLs, or several lockers",
		locker.ErrTooManyTTLs, ttl, strings.Join(inUse, ", "), s.o.Each, s.o.Max)
}

func (e *entry[S]) isOpen() bool {
	select {
	case <-e.opened:
		return e.err == nil
	default:
		return false
	}
}
