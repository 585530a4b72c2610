package redlockmodel_test

import (
	"cmp"
	"fmt"

	model "github.com/fencedlock/locker/internal/redlockmodel"
)

// The moves that are possible in the world of tokens, and what each does.

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

// replace gives a server the data of another one, or older data. Its process lives on.
func replace(n *model.Node) {
	n.Aside = false
	if n.Memory == model.Whole {
		n.Memory = model.Replaced
	} else {
		n.Memory = model.Lost
	}
}
