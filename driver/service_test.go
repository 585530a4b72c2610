package driver_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// service is a model of a lock service with a bad network: requests and replies are late or lost,
// the client may ignore contexts, sessions end, and leases expire by the service's own clock. That
// clock goes on while the client's machine is suspended, and is as much too fast as the engine
// allows for. With each grant the service checks that the previous holder knows that its lease is
// over.
type service struct {
	t      testing.TB
	random *rand.Rand // of the network; mu guards it
	bad    float64    // how likely a fault is

	mu       sync.Mutex
	token    locker.Token
	names    map[string]*state
	released map[*fakeLock]bool // released: their late requests are refused
	leases   map[string]map[locker.Token]locker.Lease
}

// state is what the service knows of a name.
type state struct {
	holder  *fakeLock
	token   locker.Token
	base    driver.Instant // the stamp of the request on which the holder's expiry rests
	expires driver.Instant
	queue   []*place
}

// place is a place in the queue, with its last refresh: the stamp that it carried and when it came.
type place struct {
	lock        *fakeLock
	stamp, seen driver.Instant
}

func newService(t testing.TB, seed uint64) *service {
	return &service{
		t: t, random: rand.New(rand.NewPCG(seed, 1)),
		names:    make(map[string]*state),
		released: make(map[*fakeLock]bool),
		leases:   make(map[string]map[locker.Token]locker.Lease),
	}
}

func (s *service) driver() *fake {
	return &fake{acquire: s.acquire, renew: s.renew, release: s.release}
}

// chance is true with this probability while the network is bad.
func (s *service) chance(p float64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.Float64() < p*s.bad
}

func (s *service) upTo(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.random.Int64N(int64(d)))
}

// request executes something at the service, in time, late, or never, and its reply comes in time,
// late, or never. A client that ignores its context returns when its own time limit is up.
func (s *service) request(ctx context.Context, limit time.Duration, carryOut func()) error {
	if !obeysContext && s.chance(0.1) { // it ignores its context
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
	}
	there, back := s.upTo(2*time.Millisecond), s.upTo(2*time.Millisecond)
	if s.chance(0.1) {
		there = s.upTo(2 * limit)
	}
	if s.chance(0.1) {
		back = s.upTo(2 * limit)
	}
	refused, lost, unanswered := s.chance(0.05), s.chance(0.1), s.chance(0.1)
	if refused {
		return errService
	}
	done := make(chan struct{})
	go func() { // it goes on even if the client has given up
		time.Sleep(there)
		if lost {
			return
		}
		carryOut()
		if unanswered {
			return
		}
		time.Sleep(back)
		close(done)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return errService
	}
}

// lasts is how long a TTL takes on the service's fast clock.
func lasts(l *fakeLock) time.Duration { return l.req.TTL - l.req.TTL/100 - 2*time.Millisecond }

func (s *service) state(name string) *state {
	st := s.names[name]
	if st == nil {
		st = &state{}
		s.names[name] = st
	}
	return st
}

// advance gives a free lock to the first in the queue whose last refresh is recent. s.mu is held.
func (s *service) advance(name string) *state {
	st, now := s.state(name), driver.Truth()
	if st.holder != nil && now < st.expires {
		return st
	}
	st.holder = nil
	for len(st.queue) > 0 {
		p := st.queue[0]
		st.queue = st.queue[1:]
		if expires := p.seen.Add(lasts(p.lock)); now < expires {
			s.grant(name, st, p.lock, p.stamp, expires)
			break
		}
	}
	return st
}

// grant makes l the holder, and checks that nobody else believes to be the holder. s.mu is held.
func (s *service) grant(name string, st *state, l *fakeLock, base, expires driver.Instant) {
	s.token++
	st.holder, st.token, st.base, st.expires = l, s.token, base, expires
	for token, lease := range s.leases[name] {
		if err := lease.Err(); err == nil {
			left := time.Until(lease.Deadline())
			s.t.Errorf("%q is granted while its lease %v believes to hold it for another %v", name, token, left)
		}
		delete(s.leases[name], token)
	}
}

func (s *service) acquire(ctx context.Context, l *fakeLock) (driver.Grant, error) {
	if l.count(&l.acquires) > 1 && l.isQueued() {
		return s.wait(ctx, l)
	}
	stamp, polls := driver.Stamp(), s.chance(0.3)
	var g driver.Grant
	answer := locker.ErrHeld
	err := s.request(ctx, l.req.TTL/6, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.released[l] {
			answer = errService
			return
		}
		now := driver.Truth()
		switch st := s.advance(l.req.Name); {
		case st.holder == nil:
			s.grant(l.req.Name, st, l, stamp, now.Add(lasts(l)))
			g, answer = driver.Grant{Token: st.token, Base: stamp, TTL: l.req.TTL}, nil
		case st.holder == l: // its reply was lost
			g, answer = driver.Grant{Token: st.token, Base: st.base, TTL: l.req.TTL}, nil
		case l.req.NoWait:
		case polls:
			answer = &driver.HeldError{AskWithin: time.Second}
		default:
			st.queue = append(st.queue, &place{lock: l, stamp: stamp, seen: now})
			answer = driver.ErrQueued
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		return driver.Grant{}, err
	}
	return g, answer
}

// wait is the blocked call of a queued acquisition: it looks again and again, and may miss its
// grant for a while.
func (s *service) wait(ctx context.Context, l *fakeLock) (driver.Grant, error) {
	for {
		select {
		case <-ctx.Done():
			return driver.Grant{}, ctx.Err()
		case <-time.After(50*time.Millisecond + s.upTo(100*time.Millisecond)):
		}
		if s.chance(0.01) {
			l.lost(errRevoked)
		}
		if s.chance(0.01) {
			return driver.Grant{}, errService
		}
		if s.chance(0.2) {
			continue // the message is lost
		}
		s.mu.Lock()
		st := s.advance(l.req.Name)
		var g driver.Grant
		granted := st.holder == l
		if granted {
			g = driver.Grant{Token: st.token, Base: st.base, TTL: l.req.TTL}
		}
		waiting := slices.ContainsFunc(st.queue, func(p *place) bool { return p.lock == l })
		s.mu.Unlock()
		if granted {
			return g, nil
		}
		if !waiting {
			return driver.Grant{}, &driver.HeldError{AskWithin: time.Millisecond} // its place was lost
		}
	}
}

func (s *service) renew(ctx context.Context, l *fakeLock) (driver.Instant, error) {
	stamp := driver.Stamp()
	if s.chance(0.05) {
		return 0, errSilent
	}
	answer := error(nil)
	err := s.request(ctx, l.req.TTL/6, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		st, now := s.advance(l.req.Name), driver.Truth()
		if st.holder == l {
			st.base, st.expires = max(st.base, stamp), now.Add(lasts(l))
			return
		}
		for _, p := range st.queue {
			if p.lock == l {
				p.stamp, p.seen = max(p.stamp, stamp), now
				return
			}
		}
		answer = locker.ErrLost
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return stamp, answer
}

func (s *service) release(ctx context.Context, l *fakeLock) error {
	return s.request(ctx, l.req.TTL/6, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.released[l] = true
		st := s.state(l.req.Name)
		if st.holder == l {
			st.holder = nil
		}
		st.queue = slices.DeleteFunc(st.queue, func(p *place) bool { return p.lock == l })
		s.advance(l.req.Name)
	})
}

// holds notes a lease that a caller has received.
func (s *service) holds(lease locker.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases[lease.Name()] == nil {
		s.leases[lease.Name()] = make(map[locker.Token]locker.Lease)
	}
	st := s.state(lease.Name())
	if st.token > lease.Token() && lease.Err() == nil {
		s.t.Errorf("%q was granted with token %v, and token %v is returned as good", lease.Name(), st.token, lease.Token())
	}
	s.leases[lease.Name()][lease.Token()] = lease
}

// residue is what exists without an owner.
func (s *service) residue() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, st := range s.names {
		n += len(st.queue)
		if st.holder != nil {
			n++
		}
	}
	return n
}
