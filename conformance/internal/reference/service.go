package reference

import (
	"slices"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// Service is a lock service. It executes one request at a time.
type Service struct {
	steps   steps
	dialect Dialect

	mu       sync.Mutex
	data     data
	conns    map[*conn]struct{}
	sessions map[string]*conn // where the notices for a client go: the connection of its last request
	requests int64

	// The faults of faults.go.
	paused  bool
	backlog []delivery // what has arrived meanwhile
	down    bool
}

// data is what the service keeps over a restart.
type data struct {
	locks      map[string]*record // by key
	tombstones tombstones
	last       locker.Token  // the last token of all keys
	ahead      time.Duration // how far the clock is ahead of the simulated one
}

// record is one key. While its queue has a live waiter it has a holder, except between two
// statements.
type record struct {
	key    string
	holder *entry // nil: the lock is free
	queue  []*entry

	timer *time.Timer    // hands the lock over when the holder's time is up
	wake  driver.Instant // when it fires
}

// entry is what the service keeps of an acquisition: a lock, or a place in a queue.
type entry struct {
	owner   string
	session string
	ttl     time.Duration
	token   locker.Token   // of a lock
	sent    driver.Instant // the client's stamp of the last refresh
	expires driver.Instant // that refresh + TTL
}

func newService(m *Mutation, d Dialect) *Service {
	s := &Service{steps: right(), dialect: d, data: newData(), conns: make(map[*conn]struct{}), sessions: make(map[string]*conn)}
	if m != nil {
		m.change(&s.steps)
	}
	return s
}

func newData() data { return data{locks: make(map[string]*record)} }

// execute is what the service does with a request. Every operation may be repeated.
func (s *Service) execute(from *conn, q request, now driver.Instant) reply {
	r := reply{answers: make([]answer, len(q.claims))}
	for i, c := range q.claims {
		switch q.verb {
		case acquire:
			r.answers[i] = s.steps.acquire(s, from, q, c, now)
		case renew:
			r.answers[i] = s.steps.renewOne(s, q, c, now)
		case release:
			r.answers[i] = s.steps.releaseOne(s, q, c, now)
		case current:
			r.answers[i] = s.steps.current(s, c.key, now)
		}
	}
	return r
}

// acquire is the only operation that creates. For an owner that has the lock or a place it says so
// again, and restarts the TTL.
func (s *Service) acquire(from *conn, q request, c claim, now driver.Instant) answer {
	if s.data.tombstones.has(c.owner, now) {
		return answer{state: gone}
	}
	r := s.open(c.key)
	defer s.settle(r, now)
	s.steps.advance(s, r, now)
	if e := s.find(r, acquire, c, q); e != nil {
		return s.refresh(acquire, r, e, q, c, now)
	}
	e := &entry{owner: c.owner, session: q.session, ttl: c.ttl, sent: q.sent}
	e.expires = s.steps.expiry(s, acquire, r, e, c.ttl, now)
	switch {
	case r.holder == nil: // and nobody waits
		s.steps.grant(s, from, r, e, now)
		return answer{granted, e.token}
	case q.noWait:
		s.steps.bury(s, c, now)
		return answer{state: refused}
	}
	s.steps.enqueue(s, r, e)
	return answer{state: queued}
}

// renew restarts the TTL of a lock or a place, and never creates one. A waiter whose notice was
// lost learns here that it has the lock.
func (s *Service) renew(q request, c claim, now driver.Instant) answer {
	r := s.open(c.key)
	defer s.settle(r, now)
	s.steps.advance(s, r, now)
	if e := s.find(r, renew, c, q); e != nil {
		return s.refresh(renew, r, e, q, c, now)
	}
	return answer{state: gone}
}

// refresh restarts the TTL of a lock or a place.
func (s *Service) refresh(v verb, r *record, e *entry, q request, c claim, now driver.Instant) answer {
	e.sent = max(e.sent, q.sent)
	e.expires = s.steps.expiry(s, v, r, e, c.ttl, now)
	if e.token > 0 {
		return answer{granted, e.token}
	}
	return answer{state: queued}
}

// release removes whatever exists of an acquisition, and hands the lock over when the acquisition
// had it. It leaves a tombstone in any case: the request that acquires, or a copy of it, may still
// be on its way.
func (s *Service) release(q request, c claim, now driver.Instant) answer {
	r := s.open(c.key)
	defer s.settle(r, now)
	s.steps.advance(s, r, now)
	if e := s.find(r, release, c, q); e != nil && e == r.holder {
		r.holder = nil
	} else if e != nil {
		r.queue = slices.DeleteFunc(r.queue, func(w *entry) bool { return w == e })
	}
	s.steps.bury(s, c, now)
	s.steps.advance(s, r, now)
	return answer{state: gone}
}

// current is the token of the holder; 0: nobody has the lock.
func (s *Service) current(key string, now driver.Instant) answer {
	r := s.open(key)
	defer s.settle(r, now)
	s.steps.advance(s, r, now)
	if r.holder == nil {
		return answer{}
	}
	return answer{token: r.holder.token}
}

// grant gives a free lock to an acquisition.
func (s *Service) grant(from *conn, r *record, e *entry, _ driver.Instant) {
	r.holder = e
	e.token = s.steps.mint(s, from, r)
}

func (s *Service) enqueue(r *record, e *entry) { r.queue = append(r.queue, e) }

// find returns the lock or place of an acquisition; nil: there is none.
func (s *Service) find(r *record, v verb, c claim, q request) *entry {
	if r.holder != nil && s.steps.owns(v, r.holder, c, q) {
		return r.holder
	}
	for _, w := range r.queue {
		if s.steps.owns(v, w, c, q) {
			return w
		}
	}
	return nil
}

// owns reports whether a lock or place belongs to the acquisition that a request names.
func owns(_ verb, e *entry, c claim, _ request) bool { return e.owner == c.owner }

// open returns the record of a key. settle follows.
func (s *Service) open(key string) *record {
	r := s.data.locks[key]
	if r == nil {
		r = &record{key: key}
		s.data.locks[key] = r
	}
	return r
}

// settle deletes a record that holds nothing any more, and otherwise sees to its expiry.
func (s *Service) settle(r *record, now driver.Instant) {
	if r.holder != nil || len(r.queue) > 0 {
		s.steps.watch(s, r, now)
		return
	}
	if r.timer != nil {
		r.timer.Stop()
	}
	delete(s.data.locks, r.key)
}

// notify sends a notice to a client, if that is connected.
func (s *Service) notify(session string, n notice) {
	if c := s.sessions[session]; c != nil {
		c.client.link.push(func() { c.client.hear(c, n) })
	}
}
