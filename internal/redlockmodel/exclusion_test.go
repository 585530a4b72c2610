package redlockmodel_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	model "github.com/fencedlock/locker/internal/redlockmodel"
)

// exclusion is a model of Redlock with time. The promise: no two leases are valid at once, as long
// as clocks run at nearly the same speed.
//
// Time goes on in ticks, as often as it likes between any two moves. A TTL, less what is taken off
// for drift, is some ticks. For so long a client trusts its lease, from when it has sent what the
// lease rests on (the base of quorum.go). After that, and not before, a server may let a key expire
// and end its wait after a loss: drift is the allowance for its clock. It may be slow, too, and do
// so much later.
//
// Left out is what only keeps others out for longer, or ends a lease earlier: answers that are
// lost, requests that are executed when their attempt is over, renewals that are sent long
// before they are executed. Nor do counters matter that are lost.
type exclusion struct {
	nodes, attempts int
	ttl             uint8 // in ticks, less drift
	proposals       model.Token
	losses          int
	snapshots       bool
	alive           bool // a server goes back to a snapshot while its process lives on
	swaps           bool // databases are swapped instead
	fromReply       bool // a lease counts from the answers, not from when the requests were sent
	noDrift         bool // a client trusts its lease for a tick longer
	newest          bool // a lease counts from its newest renewal by any server, not by a majority
	out             model.Rules
}

type leaseState struct {
	columns  [mostNodes]hold
	attempts [mostAttempts]trial
	losses   int8
}

// hold is all that belongs to one server.
type hold struct {
	node, saved, aside  model.Node // aside: the other database
	waited, waitedAside uint8      // ticks since the loss was noticed
	seen                [mostAttempts]backing
}

// backing is what an attempt knows of a server.
type backing struct {
	carried, granted, raised bool
	age                      uint8 // raised: ticks since the last request was sent that started the expiry there
}

type trial struct {
	phase phase
	age   uint8 // ticks since it has begun
	token model.Token
}

func (w *exclusion) begin() leaseState { return leaseState{losses: int8(w.losses)} }

func (w *exclusion) trust() uint8 {
	if w.noDrift {
		return w.ttl + 1
	}
	return w.ttl
}

func (w *exclusion) moves(s leaseState, to []move) []move {
	for a := range uint8(w.attempts) {
		at := &s.attempts[a]
		if at.phase == idle {
			for t := range w.proposals {
				to = append(to, move{begins, a, 0, t + 1})
			}
			break
		}
		if at.phase != over {
			to = append(to, move{ends, a, 0, 0})
		}
		if (at.phase == asking || at.phase == raising) && w.count(&s, a, func(b *backing) bool { return b.raised }) > w.nodes/2 {
			to = append(to, move{returns, a, 0, 0})
		} else if at.phase == asking && w.count(&s, a, func(b *backing) bool { return b.granted }) > w.nodes/2 {
			for t := range w.proposals + 1 {
				to = append(to, move{goesOn, a, 0, t + 1})
			}
		}
		for n := range uint8(w.nodes) {
			c := &s.columns[n]
			switch {
			case at.phase == asking && !c.seen[a].carried:
				to = append(to, move{acquires, a, n, 0})
			case at.phase == raising && !c.seen[a].raised:
				to = append(to, move{raises, a, n, 0})
			case at.phase == holding && c.seen[a].raised:
				to = append(to, move{renews, a, n, 0})
			case at.phase == over && (c.node.Holder == model.Owner(a+1) || w.out.ReleaseOwner):
				to = append(to, move{releases, a, n, 0})
			}
		}
	}
	to = append(to, move{ticks, 0, 0, 0})
	for n := range uint8(w.nodes) {
		c := &s.columns[n]
		if c.node.Memory == model.Lost || c.node.Memory == model.Replaced {
			to = append(to, move{notices, 0, n, 0})
		}
		if c.node.Memory == model.Waiting && c.waited >= w.ttl {
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
		} else if w.snapshots && c.node.Holder != 0 {
			to = append(to, move{saves, 0, n, 0})
		}
	}
	return to
}

func (w *exclusion) count(s *leaseState, a uint8, f func(*backing) bool) (n int) {
	for i := range w.nodes {
		if f(&s.columns[i].seen[a]) {
			n++
		}
	}
	return n
}

func (w *exclusion) apply(s leaseState, m move) (leaseState, string) {
	at, c := &s.attempts[m.attempt], &s.columns[m.node]
	b := &c.seen[m.attempt]
	owner := model.Owner(m.attempt + 1)
	clock := model.Clock{Limit: most}
	bad := ""
	switch m.kind {
	case begins:
		*at = trial{phase: asking, token: m.token}
	case acquires:
		w.expire(&c.node, owner)
		answer := c.node.Acquire(w.out, owner, at.token, clock)
		b.carried, b.granted, b.raised = true, answer == model.Granted || answer == model.Raised, answer == model.Raised
	case goesOn:
		at.phase, at.token = raising, m.token
		for n := range w.nodes {
			s.columns[n].seen[m.attempt] = backing{}
		}
	case raises:
		b.raised = c.node.Raise(w.out, owner, at.token, clock) == model.Raised
	case returns:
		at.phase = holding
		for n := range w.nodes {
			b := &s.columns[n].seen[m.attempt]
			if *b = (backing{raised: b.raised, age: at.age}); w.fromReply || !b.raised {
				b.age = 0
			}
		}
		w.settle(&s)
		for o := range w.attempts {
			if uint8(o) != m.attempt && s.attempts[o].phase == holding && at.phase == holding {
				bad = "two leases are valid"
			}
		}
	case renews:
		switch c.node.Renew(w.out, owner, at.token, clock) {
		case model.Renewed:
			b.age = 0
		case model.Gone:
			*b = backing{}
		}
	case releases:
		c.node.Release(w.out, owner)
	case ends:
		at.phase = over
	case ticks:
		for a := range w.attempts {
			if p := s.attempts[a].phase; p == asking || p == raising {
				s.attempts[a].age++
			}
		}
		for n := range w.nodes {
			s.columns[n].tick(w)
		}
	case saves:
		c.saved = c.node
	case loses, goesBack:
		saved := model.Node{}
		if m.kind == goesBack {
			saved = c.saved
		}
		c.node = saved
		c.node.Memory = model.Lost
		s.losses--
	case goesBackAlive:
		c.node = c.saved
		replace(&c.node)
		s.losses--
	case swaps:
		c.node.Swap(&c.aside)
		c.waited, c.waitedAside = c.waitedAside, c.waited
		s.losses--
	case notices:
		c.node.Notice(w.out, clock)
	case recovers:
		c.node.Memory = model.Whole
	}
	w.settle(&s)
	return s, bad
}

// expire takes away a key that would keep an owner out, if it is old enough. Before somebody else
// comes that makes no difference.
func (w *exclusion) expire(n *model.Node, owner model.Owner) bool {
	return n.Age >= w.ttl && expire(n, owner)
}

// tick is time that goes on at a server.
func (c *hold) tick(w *exclusion) {
	if c.node.Holder != 0 {
		c.node.Age = min(c.node.Age+1, w.ttl)
	}
	if c.saved.Holder != 0 {
		c.saved.Age = min(c.saved.Age+1, w.ttl)
	}
	if c.aside.Holder != 0 {
		c.aside.Age = min(c.aside.Age+1, w.ttl)
	}
	if c.node.Memory == model.Waiting {
		c.waited = min(c.waited+1, w.ttl)
	}
	if c.aside.Memory == model.Waiting {
		c.waitedAside = min(c.waitedAside+1, w.ttl)
	}
	for a := range c.seen {
		if c.seen[a].raised {
			c.seen[a].age = min(c.seen[a].age+1, w.trust())
		}
	}
}

// settle ends what its time ends, and forgets what doesn't matter any more.
func (w *exclusion) settle(s *leaseState) {
	for a := range uint8(w.attempts) {
		at := &s.attempts[a]
		switch at.phase {
		case asking, raising:
			if at.age >= w.trust() && !w.fromReply {
				at.phase = over
			}
			at.age = min(at.age, w.trust())
		case holding:
			if at.age = 0; w.base(s, a) >= w.trust() {
				at.phase = over
			}
		}
		if at.phase == over {
			*at = trial{phase: over}
			for n := range w.nodes {
				s.columns[n].seen[a] = backing{}
			}
		}
	}
	for n := range w.nodes {
		c := &s.columns[n]
		if c.node.Memory != model.Waiting {
			c.waited = 0
		}
		if c.aside.Memory != model.Waiting {
			c.waitedAside = 0
		}
		if s.losses == 0 {
			c.saved, c.aside, c.node.Aside, c.waitedAside = model.Node{}, model.Node{}, false, 0
		}
	}
}

// base is how old the oldest is of the newest stamps of a majority.
func (w *exclusion) base(s *leaseState, a uint8) uint8 {
	var ages []uint8
	for n := range w.nodes {
		if b := s.columns[n].seen[a]; b.raised {
			ages = append(ages, b.age)
		}
	}
	slices.Sort(ages)
	if w.newest && len(ages) > 0 {
		return ages[0]
	}
	if len(ages) <= w.nodes/2 {
		return w.trust()
	}
	return ages[w.nodes/2]
}

func (w *exclusion) canonical(s leaseState) leaseState {
	c := s.columns[:w.nodes]
	for i := 1; i < len(c); i++ {
		for j := i; j > 0 && c[j].compare(&c[j-1]) < 0; j-- {
			c[j], c[j-1] = c[j-1], c[j]
		}
	}
	return s
}

func (c *hold) compare(d *hold) int {
	if c.node != d.node {
		return cmp.Compare(pack(c.node), pack(d.node))
	}
	return cmp.Or(cmp.Compare(c.progress(), d.progress()), cmp.Compare(pack(c.saved), pack(d.saved)), cmp.Compare(c.waited, d.waited),
		cmp.Compare(pack(c.aside), pack(d.aside)), cmp.Compare(c.waitedAside, d.waitedAside))
}

func (c *hold) progress() (n uint64) {
	for _, b := range c.seen {
		for _, bit := range []bool{b.carried, b.granted, b.raised} {
			if n <<= 1; bit {
				n |= 1
			}
		}
		n = n<<8 | uint64(b.age)
	}
	return n
}

func (w *exclusion) tell(s leaseState, m move) string {
	at, node := s.attempts[m.attempt], s.columns[m.node].node
	owner, clock := model.Owner(m.attempt+1), model.Clock{Limit: most}
	switch m.kind {
	case acquires:
		return m.after(w.expire(&node, owner)) + m.say(node.Acquire(w.out, owner, at.token, clock))
	case raises:
		return m.say(node.Raise(w.out, owner, at.token, clock))
	case renews:
		return m.say(node.Renew(w.out, owner, at.token, clock))
	case returns:
		m.token = at.token
	}
	return m.say("")
}

func (w *exclusion) search(t *testing.T) (int, *failure) { return exhaust(t, w) }

func (w *exclusion) walk(rng *rand.Rand, n int) (int, *failure) { return walk(w, rng, n) }
