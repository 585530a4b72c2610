package redlockmodel_test

import (
	"testing"

	model "github.com/fencedlock/locker/internal/redlockmodel"
)

// A model of one server: what a release leaves, what it takes along, and how far counters go. What
// holds on each server holds on all of them.
//
// Requests come in any order, also requests of an attempt that is over. Tombstones don't expire: what
// is promised is promised for as long as they live.
type removal struct {
	attempts int
	resends  bool // acquire may be executed more than once
	out      model.Rules
}

type removalState struct {
	node     model.Node
	attempts [mostAttempts]remover
}

type remover struct{ carried, over, confirmed bool }

const removalLimit = 2 // of the server's clock

func (w *removal) begin() removalState { return removalState{} }

func (w *removal) moves(s removalState, to []move) []move {
	for a := range uint8(w.attempts) {
		at := s.attempts[a]
		for t := range model.Token(removalLimit + 1) {
			if !at.carried || w.resends {
				to = append(to, move{acquires, a, 0, t + 1})
			}
			to = append(to, move{raises, a, 0, t + 1}, move{renews, a, 0, t + 1})
		}
		if at.over {
			to = append(to, move{releases, a, 0, 0})
		} else {
			to = append(to, move{ends, a, 0, 0})
		}
	}
	return append(to, move{expires, 0, 0, 0})
}

func (w *removal) apply(s removalState, m move) (removalState, string) {
	at, owner, clock := &s.attempts[m.attempt], model.Owner(m.attempt+1), model.Clock{Limit: removalLimit}
	before := s.node.Holder
	switch m.kind {
	case acquires:
		s.node.Acquire(w.out, owner, m.token, clock)
		at.carried = true
	case raises:
		s.node.Raise(w.out, owner, m.token, clock)
	case renews:
		s.node.Renew(w.out, owner, m.token, clock)
	case ends:
		at.over = true
	case releases:
		s.node.Release(w.out, owner)
		if at.confirmed = true; before != 0 && before != owner && s.node.Holder != before {
			return s, "a release has removed the key of somebody else"
		}
	case expires:
		s.node.Expire()
	}
	switch {
	case s.node.Holder == owner && at.confirmed:
		return s, "a key exists though its removal was confirmed"
	case s.node.Token > removalLimit:
		return s, "a counter is beyond the server's clock and a minute"
	}
	return s, ""
}

func (w *removal) canonical(s removalState) removalState { return s }

func (w *removal) tell(s removalState, m move) string {
	owner, clock := model.Owner(m.attempt+1), model.Clock{Limit: removalLimit}
	switch m.kind {
	case acquires:
		return m.say(s.node.Acquire(w.out, owner, m.token, clock))
	case raises:
		return m.say(s.node.Raise(w.out, owner, m.token, clock))
	case renews:
		return m.say(s.node.Renew(w.out, owner, m.token, clock))
	}
	return m.say("")
}

func (w *removal) search(t *testing.T) (int, *failure) { return exhaust(t, w) }
