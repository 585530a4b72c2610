package redlockmodel_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"

	model "github.com/fencedlock/locker/internal/redlockmodel"
)

// tokens is a model of Redlock without time: what holds of tokens whatever the clocks do.
//
// Some attempts are made to get one lock, each with an owner of its own. Clients' clocks show
// anything. Every request is executed at any later time, once, or never; a second phase and
// renewals any number of times. Every answer may be lost. Keys expire whenever they like, on each
// server by itself. Servers lose their data.
//
// What an attempt does is what attempt.go does: ask all servers; if a majority has raised its
// counter to the proposal, that is the token; if a majority has granted, but not that, ask for
// another token in a second phase. An answer counts in the phase of its request. Which token the
// second phase asks for makes no difference to what is promised, so it is any.
//
// The promises: no token is returned twice; one that is returned is larger than those that had been
// returned when its attempt began; and once a larger token has been returned, no majority renews a
// lease.
//
// Some things are left out, because what is there covers them. A key that expires makes a
// difference only where somebody else acquires next: so it expires then. (That a raise or a renewal
// finds none is like a request that never arrives.) An attempt that gives up is like one whose
// answers are lost. A release is like keys that expire and requests that never arrive. An answer
// that comes late is like a request that is executed late, or like an answer that is lost, if it
// comes after the decision.
type tokens struct {
	nodes, attempts int
	proposals       model.Token // clients' clocks show anything from 1 to this
	seconds         model.Token // and tokens of the second phase are anything from 1 to this
	losses          int         // how often servers lose their data
	snapshots       bool        // or go back to older data
	alive           bool        // and their process lives on
	swaps           bool        // or databases are swapped instead
	expiry          bool        // counters expire
	setBack         bool        // a server's clock is before what it has forgotten when it notices
	stepsBack       bool        // or later
	client
	out model.Rules
}

// client is what clients do otherwise, to see what breaks.
type client struct {
	resends    bool // acquire may be executed more than once
	countsLate bool // answers to acquire still count in the second phase, and for renewals
	countsAny  bool // all that have granted count
}

type tokenState struct {
	columns  [mostNodes]column
	attempts [mostAttempts]attempt
	losses   int8
}

// column is all that belongs to one server, so that states in which the servers have changed places
// are known to be the same.
type column struct {
	node, saved, aside model.Node          // saved: the snapshot; aside: the other database
	forgot             model.Token         // the highest counter that was lost: the server's clock is no less
	floor              model.Token         // the highest that has expired: likewise
	back               bool                // its clock was set back
	seen               [mostAttempts]flags // how far each attempt is with it
}

type flags uint8

const (
	carried flags = 1 << iota // acquire was executed
	granted                   // and its answer has come
	raised                    // the counter was raised to our token, and the answer has come
	renewed                   // since a higher token was issued
)

type attempt struct {
	phase    phase
	floor    model.Token // the highest token that had been returned when it began
	proposal model.Token
	token    model.Token // of phase 2
	lease    model.Token // that was returned
}

func (w *tokens) begin() tokenState { return tokenState{losses: int8(w.losses)} }

// clock is a server's, as it is at the worst: so that what has expired or was lost had been raised
// as far as it could be, by a client whose clock was ahead.
func (w *tokens) clock(c *column) model.Clock {
	clock := model.Clock{Now: max(c.forgot, 1) - 1, Ahead: c.forgot, Floor: c.floor, Limit: most}
	if w.setBack || c.back {
		clock.Now, clock.Ahead = 0, 0
	}
	return clock
}

// note takes in an answer.
func (f *flags) note(answer model.Answer) {
	switch answer {
	case model.Granted:
		*f |= granted
	case model.Raised:
		*f |= granted | raised
	}
}

func (w *tokens) majority() int { return w.nodes/2 + 1 }

// count is on how many servers an attempt has something.
func (w *tokens) count(s *tokenState, a uint8, f flags) (n int) {
	for i := range w.nodes {
		if s.columns[i].seen[a]&f == f {
			n++
		}
	}
	return n
}

// wins reports whether an attempt has its token.
func (w *tokens) wins(s *tokenState, a uint8) bool {
	phase := s.attempts[a].phase
	f := raised
	if w.countsAny {
		f = granted
	}
	return (phase == asking || phase == raising) && w.count(s, a, f) >= w.majority()
}

// returned checks a lease.
func (w *tokens) returned(s *tokenState, a uint8) string {
	at := s.attempts[a]
	for b := range w.attempts {
		if uint8(b) != a && s.attempts[b].lease == at.lease {
			return fmt.Sprintf("token %d was issued twice", at.lease)
		}
	}
	if at.lease <= at.floor {
		return fmt.Sprintf("token %d was issued to an attempt that had begun after token %d had been returned", at.lease, at.floor)
	}
	return ""
}

// highest is the highest token that has been returned.
func (s *tokenState) highest() (t model.Token) {
	for _, at := range s.attempts {
		t = max(t, at.lease)
	}
	return t
}

// lose is a server that forgets all, or all since a snapshot.
func (w *tokens) lose(s *tokenState, c *column, to model.Node) {
	c.forgot = max(c.forgot, c.node.Token, c.floor)
	c.node = to
	c.node.Memory = model.Lost
	if s.losses--; s.losses == 0 { // no snapshot has a use any more
		for n := range w.nodes {
			s.columns[n].saved, s.columns[n].aside, s.columns[n].node.Aside = model.Node{}, model.Node{}, false
		}
	}
}

// snapshotsLeft: more than can be gone back to need not be written.
func (w *tokens) snapshotsLeft(s *tokenState) bool {
	left := s.losses
	for n := range w.nodes {
		if s.columns[n].saved != (model.Node{}) {
			left--
		}
	}
	return left > 0
}

// canonical sorts the servers. They are all alike, so what can happen after two states that differ
// in their order is the same.
func (w *tokens) canonical(s tokenState) tokenState {
	c := s.columns[:w.nodes]
	for i := 1; i < len(c); i++ {
		for j := i; j > 0 && c[j].compare(&c[j-1]) < 0; j-- {
			c[j], c[j-1] = c[j-1], c[j]
		}
	}
	return s
}

func (c *column) compare(d *column) int {
	if c.seen != d.seen {
		return cmp.Compare(c.progress(), d.progress())
	}
	return cmp.Or(
		cmp.Compare(pack(c.node), pack(d.node)),
		cmp.Compare(pack(c.saved), pack(d.saved)), cmp.Compare(pack(c.aside), pack(d.aside)),
		cmp.Compare(c.forgot, d.forgot), cmp.Compare(c.floor, d.floor), cmp.Compare(c.bit(), d.bit()))
}

func (c *column) bit() int {
	if c.back {
		return 1
	}
	return 0
}

func (c *column) progress() (n uint64) {
	for _, f := range c.seen {
		n = n<<8 | uint64(f)
	}
	return n
}

// tell puts a move in words; s is the state before it.
func (w *tokens) tell(s tokenState, m move) string {
	at, c := s.attempts[m.attempt], &s.columns[m.node]
	node, owner, clock := c.node, model.Owner(m.attempt+1), w.clock(c)
	switch m.kind {
	case acquires, acquiresUnheard:
		return m.after(expire(&node, owner)) + m.say(node.Acquire(w.out, owner, at.proposal, clock))
	case raises, raisesUnheard:
		return m.say(node.Raise(w.out, owner, at.token, clock))
	case renews:
		return m.after(w.out.RenewExists && expire(&node, owner)) + m.say(node.Renew(w.out, owner, at.lease, clock))
	case returns:
		m.token = cmp.Or(at.token, at.proposal)
	}
	return m.say("")
}

func (w *tokens) search(t *testing.T) (int, *failure) { return exhaust(t, w) }

func (w *tokens) walk(rng *rand.Rand, n int) (int, *failure) { return walk(w, rng, n) }
