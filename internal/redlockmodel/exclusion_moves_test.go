package redlockmodel_test

import model "github.com/fencedlock/locker/internal/redlockmodel"

// The moves that are possible in the world of exclusion, and what each does.

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
