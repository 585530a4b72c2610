package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/fencedlock/locker"
)

// store keeps keys with an owner and a time to live. It represents the service of a real backend: a
// database, a key-value store, or a service of your own. Each request is one step.
type store struct {
	mu       sync.Mutex
	owners   map[string]owner     // by name
	released map[string]time.Time // owners that may not come back, and until when that is remembered
	last     locker.Token
}

type owner struct {
	id      string
	expires time.Time // on Go's monotonic clock, which doesn't jump
}

type key struct{ Name, Owner string }

type request struct {
	TTL  time.Duration
	Keys []key
}

// remembered is how long a released owner is kept out: much longer than a network can delay a
// request.
const remembered = time.Hour

func newStore() *store {
	return &store{owners: make(map[string]owner), released: make(map[string]time.Time)}
}

// ServeHTTP answers a number for each key: the token, or 1 or 0 for what was done or not.
func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	do := map[string]func(key, time.Duration) locker.Token{
		"/acquire": s.acquire, "/renew": s.renew, "/release": s.release,
	}[r.URL.Path]
	var asked request
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || do == nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	answers := make([]locker.Token, len(asked.Keys))
	s.mu.Lock()
	for i, k := range asked.Keys {
		answers[i] = do(k, asked.TTL)
	}
	s.mu.Unlock()
	_ = json.NewEncoder(w).Encode(answers) // a client that has gone cleans up by itself
}

func (s *store) acquire(k key, ttl time.Duration) locker.Token {
	_, held := s.holder(k.Name)
	if _, over := s.released[k.Owner]; held || over {
		return 0
	}
	s.owners[k.Name] = owner{k.Owner, time.Now().Add(ttl)}
	// Microseconds since 1970 rise over a restart as well, though nothing is kept.
	s.last = max(s.last+1, locker.Token(time.Now().UnixMicro()))
	return s.last
}

// renew doesn't create: a key that has expired may have been somebody else's since.
func (s *store) renew(k key, ttl time.Duration) locker.Token {
	if o, held := s.holder(k.Name); !held || o.id != k.Owner {
		return 0
	}
	s.owners[k.Name] = owner{k.Owner, time.Now().Add(ttl)}
	return 1
}

func (s *store) release(k key, _ time.Duration) locker.Token {
	if o, held := s.holder(k.Name); held && o.id == k.Owner {
		delete(s.owners, k.Name)
		return 1
	}
	// Its request to acquire may still be on its way.
	maps.DeleteFunc(s.released, func(_ string, until time.Time) bool { return time.Now().After(until) })
	s.released[k.Owner] = time.Now().Add(remembered)
	return 0
}

func (s *store) holder(name string) (o owner, held bool) {
	o, held = s.owners[name]
	return o, held && time.Now().Before(o.expires)
}
