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

// service is a model of a lock service behind a bad network: requests and replies are late or lost,
// the client is deaf to contexts or not, sessions die, and leases expire by the service's own
// clock, which goes on while the client's machine sleeps and is as much too fast as the engine
// allows for. With each grant it checks that whoever had the lock before knows that it is over.
type service struct {
	t      testing.TB
	random *rand.Rand // of the network; mu guards it
	bad    float64    // how likely a fault is

	mu     sync.Mutex
	token  locker.Token
	names  map[string]*standing
	buried map[*fakeLock]bool // released: a request of theirs that comes late is refused
	leases map[string]map[locker.Token]locker.Lease
}

// standing is what the service knows of a name.
type standing struct {
	holder  *fakeLock
	token   locker.Token
	base    driver.Instant // the stamp of the request on which the holder's expiry rests
	expires driver.Instant
	queue   []*place
}

// place is one in the queue, with its last refresh: the stamp it carried and the time at which it
// came.
type place struct {
	lock        *fakeLock
	stamp, seen driver.Instant
}

func newService(t testing.TB, seed uint64) *service {
	return &service{
		t: t, random: rand.New(rand.NewPCG(seed, 1)),
		names:  make(map[string]*standing),
		buried: make(map[*fakeLock]bool),
		leases: make(map[string]map[locker.Token]locker.Lease),
	}
}

func (s *service) driver() *fake {
	return &fake{acquire: s.acquire, renew: s.renew, release: s.release}
}

// chance is true that often while the network is bad.
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

// request carries something out at the service, in time, late, or never; likewise its reply. A
// client that is deaf returns when its own time limit is up.
func (s *service) request(ctx context.Context, limit time.Duration, carryOut func()) error {
	if s.chance(0.1) { // deaf
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
	go func() { // it goes on though the client has given up
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

// lasts is how long the service, with its fast clock, waits for a holder.
func lasts(l *fakeLock) time.Duration { return l.req.TTL - l.req.TTL/100 - 2*time.Millisecond }

func (s *service) standing(name string) *standing {
	st := s.names[name]
	if st == nil {
		st = &standing{}
		s.names[name] = st
	}
	return st
}

// advance gives a lock that is free to the first in the queue who has been heard of lately. s.mu is
// held.
func (s *service) advance(name string) *standing {
	st, now := s.standing(name), driver.Truth()
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

// grant makes l the holder, and checks that nobody else believes to be. s.mu is held.
func (s *service) grant(name string, st *standing, l *fakeLock, base, expires driver.Instant) {
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
		if s.buried[l] {
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
			answer = &driver.HeldError{RetryAfter: time.Second}
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

// wait is the blocked call of one that is queued: it looks again and again, and may miss its grant
// for a while.
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
			return driver.Grant{}, &driver.HeldError{RetryAfter: time.Millisecond} // its place was lost
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
		s.buried[l] = true
		st := s.standing(l.req.Name)
		if st.holder == l {
			st.holder = nil
		}
		st.queue = slices.DeleteFunc(st.queue, func(p *place) bool { return p.lock == l })
		s.advance(l.req.Name)
	})
}

// holds notes a lease that a caller has got.
func (s *service) holds(lease locker.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases[lease.Name()] == nil {
		s.leases[lease.Name()] = make(map[locker.Token]locker.Lease)
	}
	st := s.standing(lease.Name())
	if st.token > lease.Token() && lease.Err() == nil {
		s.t.Errorf("%q was granted with token %v, and token %v is returned as good", lease.Name(), st.token, lease.Token())
	}
	s.leases[lease.Name()][lease.Token()] = lease
}

// residue is what stands without an owner.
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
