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

func (w *exclusion) count(s *leaseState, a uint8, f func(*backing) bool) (n int) {
	for i := range w.nodes {
		if f(&s.columns[i].seen[a]) {
			n++
		}
	}
	return n
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
