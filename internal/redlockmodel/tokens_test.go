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

func (w *tokens) moves(s tokenState, to []move) []move {
	for a := range uint8(w.attempts) {
		at := &s.attempts[a]
		if at.phase == idle { // they begin in order, as there is nothing yet to tell them apart by
			for t := range w.proposals {
				to = append(to, move{begins, a, 0, t + 1})
			}
			break
		}
		if w.wins(&s, a) {
			to = append(to, move{returns, a, 0, 0})
		} else if at.phase == asking && w.count(&s, a, granted) >= w.majority() {
			for t := range w.seconds {
				to = append(to, move{goesOn, a, 0, t + 1})
			}
		}
		for n := range uint8(w.nodes) {
			flags := s.columns[n].seen[a]
			if flags&carried == 0 || w.resends {
				to = append(to, move{acquiresUnheard, a, n, 0})
				if at.phase == asking && flags&granted == 0 || w.countsLate && (at.phase == raising || at.phase == holding) {
					to = append(to, move{acquires, a, n, 0})
				}
			}
			if at.token != 0 {
				to = append(to, move{raisesUnheard, a, n, 0})
				if at.phase == raising {
					to = append(to, move{raises, a, n, 0})
				}
			}
			if at.phase == holding && flags&renewed == 0 {
				to = append(to, move{renews, a, n, 0})
			}
		}
	}
	for n := range uint8(w.nodes) {
		c := &s.columns[n]
		if w.expiry && c.node.Token != 0 {
			to = append(to, move{expiresCounter, 0, n, 0})
		}
		if w.stepsBack && c.node.Memory == model.Whole && c.node.Since > 0 && !c.back {
			to = append(to, move{stepsBack, 0, n, 0})
		}
		if c.node.Memory == model.Lost || c.node.Memory == model.Replaced {
			to = append(to, move{notices, 0, n, 0})
		}
		if c.node.Memory == model.Waiting {
			to = append(to, move{recovers, 0, n, 0})
		}
		if s.losses == 0 {
			continue
		}
		if w.swaps {
			to = append(to, move{swaps, 0, n, 0})
			continue
		}
		to = append(to, move{loses, 0, n, 0})
		if w.snapshots && c.saved != (model.Node{}) {
			to = append(to, move{goesBack, 0, n, 0})
			if w.alive {
				to = append(to, move{goesBackAlive, 0, n, 0})
			}
		} else if w.snapshots && c.node.Holder != 0 && w.snapshotsLeft(&s) {
			to = append(to, move{saves, 0, n, 0})
		}
	}
	return to
}

func (w *tokens) apply(s tokenState, m move) (next tokenState, bad string) {
	at, c := &s.attempts[m.attempt], &s.columns[m.node]
	seen := &c.seen[m.attempt]
	owner := model.Owner(m.attempt + 1)
	clock := w.clock(c)
	switch m.kind {
	case begins:
		*at = attempt{phase: asking, floor: s.highest(), proposal: m.token}
	case acquires, acquiresUnheard:
		expire(&c.node, owner)
		answer := c.node.Acquire(w.out, owner, at.proposal, clock)
		if *seen |= carried; m.kind == acquires {
			seen.note(answer)
		}
	case goesOn:
		at.phase, at.token = raising, m.token
		for n := range w.nodes {
			s.columns[n].seen[m.attempt] &= carried
		}
	case raises, raisesUnheard:
		answer := c.node.Raise(w.out, owner, at.token, clock)
		if m.kind == raises && answer == model.Raised {
			seen.note(answer)
		}
	case returns:
		at.lease = cmp.Or(at.token, at.proposal)
		bad = w.returned(&s, m.attempt)
		at.phase = holding
		for n := range w.nodes {
			s.columns[n].seen[m.attempt] &= carried
		}
	case renews:
		if w.out.RenewExists {
			expire(&c.node, owner)
		}
		answer := c.node.Renew(w.out, owner, at.lease, clock)
		if answer == model.Renewed && s.highest() > at.lease {
			*seen |= renewed
		}
		if w.count(&s, m.attempt, renewed) >= w.majority() {
			bad = fmt.Sprintf("the lease with token %d was renewed after token %d had been returned", at.lease, s.highest())
		}
	case expiresCounter:
		c.floor = max(c.floor, c.node.Token)
		c.node.Token = 0
	case saves:
		c.saved = c.node
	case stepsBack: // which counts as a loss, though nothing is lost this time
		c.back = true
		c.node.Memory = model.Lost
	case loses:
		w.lose(&s, c, model.Node{})
	case goesBack:
		w.lose(&s, c, c.saved)
	case goesBackAlive:
		saved := c.saved
		w.lose(&s, c, saved)
		c.node.Memory = saved.Memory
		replace(&c.node)
	case swaps:
		there, here := c.aside, c.node
		here.Swap(&there)
		w.lose(&s, c, here)
		if c.node.Memory, c.aside = here.Memory, there; s.losses == 0 {
			c.aside, c.node.Aside = model.Node{}, false
		}
	case notices:
		c.node.Notice(w.out, clock)
	case recovers:
		c.node.Memory = model.Whole
		c.node.Expire() // if it came with the snapshot, it has waited for longer than any key lives
	}
	return s, bad
}

// expire takes away a key that would keep an owner out.
func expire(n *model.Node, owner model.Owner) (expired bool) {
	if expired = n.Holder != 0 && n.Holder != owner; expired {
		n.Expire()
	}
	return expired
}

// replace makes the data of a server that of another, or older. Its process lives on.
func replace(n *model.Node) {
	n.Aside = false
	if n.Memory == model.Whole {
		n.Memory = model.Replaced
	} else {
		n.Memory = model.Lost
	}
}

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
