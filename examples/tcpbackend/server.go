package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/fencedlock/locker"
)

// The protocol: each request and each reply is a JSON value on a line. A connection carries many
// requests at the same time. A reply has the id of its request, and replies may come in any order.

type request struct {
	ID   uint64
	Op   string        // acquire, renew, release, wait; for operators: remove, look
	TTL  time.Duration // of wait: the longest wait
	Late bool          // of release: a request to acquire with this owner may still be on its way
	Keys []key
}

type key struct{ Name, Owner string }

// reply has a number for each key: the token, or 1 or 0 for what was done or not.
type reply struct {
	ID      uint64
	Numbers []locker.Token
	Left    []string `json:",omitempty"` // of look: what is held, and who waits
}

// server serves a store.
type server struct {
	store    *store
	requests locker.Token // from Lockers; under the store's mutex, like waits
	waits    int
}

// serve ends with the listener.
func (s *server) serve(listener net.Listener) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go s.handle(conn)
	}
}

// handle executes the requests of one connection in order. Only waits take time, so each of them
// has a goroutine of its own.
func (s *server) handle(conn net.Conn) {
	defer conn.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // a client that has gone doesn't wait any more
	var writing sync.Mutex
	replies, requests := json.NewEncoder(conn), json.NewDecoder(conn)
	answer := func(r reply) {
		writing.Lock()
		defer writing.Unlock()
		_ = replies.Encode(r) // a client that has gone cleans up by itself
	}
	for {
		var r request
		if requests.Decode(&r) != nil {
			return
		}
		if r.Op == "wait" && len(r.Keys) == 1 {
			go func() { answer(s.wait(ctx, r)) }()
			continue
		}
		answer(s.execute(r))
	}
}

func (s *server) wait(ctx context.Context, r request) reply {
	count := func(n locker.Token, waits int) {
		s.store.mu.Lock()
		defer s.store.mu.Unlock()
		s.requests += n
		s.waits += waits
	}
	count(1, 1)
	defer count(0, -1)
	limited, cancel := context.WithTimeout(ctx, r.TTL)
	defer cancel()
	s.store.wait(limited, r.Keys[0].Name)
	return reply{ID: r.ID}
}

// execute is one step, whatever the number of keys.
func (s *server) execute(r request) reply {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	answer := reply{ID: r.ID}
	if r.Op == "look" {
		answer.Numbers, answer.Left = []locker.Token{s.requests}, s.store.held()
		if s.waits > 0 {
			answer.Left = append(answer.Left, fmt.Sprintf("%d waits", s.waits))
		}
		return answer
	}
	if r.Op != "remove" {
		s.requests++
	}
	for _, k := range r.Keys {
		n := locker.Token(0)
		switch r.Op {
		case "acquire":
			n = s.store.acquire(k, r.TTL)
		case "renew":
			n = s.store.renew(k, r.TTL)
		case "release":
			n = s.store.release(k, r.Late)
		case "remove":
			s.store.remove(k.Name)
		}
		answer.Numbers = append(answer.Numbers, n)
	}
	return answer
}
