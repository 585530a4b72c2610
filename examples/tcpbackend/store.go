package main

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fencedlock/locker"
)

// store keeps keys with an owner and a time to live. It represents the data of a real service.
type store struct {
	mu       sync.Mutex
	holders  map[string]holder    // by name
	released map[string]time.Time // owners that may not come back, and until when that is remembered
	freed    chan struct{}        // closed, and replaced, whenever a name is freed
	last     locker.Token
}

type holder struct {
	owner   string
	token   locker.Token
	expires time.Time // on Go's monotonic clock, which doesn't jump
}

// remembered is how long a released owner is kept out: much longer than a network can delay a
// request.
const remembered = time.Hour

func newStore() *store {
	return &store{holders: make(map[string]holder), released: make(map[string]time.Time), freed: make(chan struct{})}
}

// acquire may be executed twice for one owner. The second time it gives the same token, and
// restarts the time to live.
func (s *store) acquire(k key, ttl time.Duration) locker.Token {
	h, held := s.holder(k.Name)
	if _, over := s.released[k.Owner]; over || held && h.owner != k.Owner {
		return 0
	}
	if !held {
		// Microseconds since 1970 rise over a restart as well, though nothing is kept.
		s.last = max(s.last+1, locker.Token(time.Now().UnixMicro()))
		h = holder{owner: k.Owner, token: s.last}
	}
	h.expires = time.Now().Add(ttl)
	s.holders[k.Name] = h
	return h.token
}

// renew doesn't create: a key that has expired may have been somebody else's since.
func (s *store) renew(k key, ttl time.Duration) locker.Token {
	h, held := s.holder(k.Name)
	if !held || h.owner != k.Owner {
		return 0
	}
	h.expires = time.Now().Add(ttl)
	s.holders[k.Name] = h
	return 1
}

// release removes the key only if it still has this owner. The owner is kept out from then on where
// a copy of its request to acquire may still be on its way: the client says so, or there is no key.
func (s *store) release(k key, late bool) locker.Token {
	h, held := s.holder(k.Name)
	mine := held && h.owner == k.Owner
	if mine {
		s.remove(k.Name)
	}
	if late || !mine {
		maps.DeleteFunc(s.released, func(_ string, until time.Time) bool { return time.Now().After(until) })
		s.released[k.Owner] = time.Now().Add(remembered)
	}
	return 1
}

func (s *store) remove(name string) {
	delete(s.holders, name)
	close(s.freed)
	s.freed = make(chan struct{})
}

// wait returns when the name is free, or when ctx ends. It looks before it waits, and under the
// mutex, so that no release comes in between unseen.
func (s *store) wait(ctx context.Context, name string) {
	for ctx.Err() == nil {
		s.mu.Lock()
		h, held := s.holder(name)
		freed := s.freed
		s.mu.Unlock()
		if !held {
			return
		}
		expiry := time.NewTimer(time.Until(h.expires))
		select {
		case <-freed: // this name or another one
		case <-expiry.C: // or it was renewed
		case <-ctx.Done():
		}
		expiry.Stop()
	}
}

func (s *store) holder(name string) (h holder, held bool) {
	h, held = s.holders[name]
	return h, held && time.Now().Before(h.expires)
}

// held lists the names that somebody holds.
func (s *store) held() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.holders)), func(name string) bool {
		_, held := s.holder(name)
		return !held
	})
}
