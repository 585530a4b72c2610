//go:build unix

package redis

import "slices"

// model is the state of one lock on a server.
type model struct {
	holder string // "": nobody
	token  int64  // 0: just granted, and not seen yet
	places []place
	buried map[string]bool
}

type place struct {
	owner, channel string
	age            int // thirds of its TTL since its last refresh
}

func (p place) stale() bool { return p.age >= 2 }
func (p place) dead() bool  { return p.age >= 3 }

func (m *model) rank(owner string) int {
	return slices.IndexFunc(m.places, func(p place) bool { return p.owner == owner })
}

func (m *model) leave(owner string) bool {
	i := m.rank(owner)
	if i >= 0 {
		m.places = slices.Delete(m.places, i, i+1)
	}
	return i >= 0
}

// advance grants a free lock to the first waiter that is alive, and returns the channel on which
// the grant is published.
func (m *model) advance(asker string, listens func(channel string) bool) (notified string) {
	for i := 0; m.holder == "" && i < len(m.places); {
		switch p := m.places[i]; {
		case p.owner != asker && p.stale():
			m.leave(p.owner)
		case p.owner != asker && !listens(p.channel):
			i++
		default:
			m.holder, m.token = p.owner, 0
			m.leave(p.owner)
			if p.owner != asker {
				notified = p.channel
			}
		}
	}
	return notified
}

// sweep removes the dead waiters among the eight before a rank, and returns the new rank.
func (m *model) sweep(rank int) int {
	for i, last := rank-1, max(rank-8, 0); i >= last; i-- {
		if m.places[i].dead() {
			m.places = slices.Delete(m.places, i, i+1)
			rank--
		}
	}
	return rank
}

// execute returns the beginning of the answer, as far as the model predicts it.
func (m *model) execute(
	script, owner, channel string, late bool, listens func(string) bool,
) (answer []int64, notified string) {
	if script == "release" {
		held := m.holder == owner
		if held {
			m.holder = ""
		}
		if !held && !m.leave(owner) || late {
			m.buried[owner] = true
		}
		return []int64{isGone}, m.advance("", listens)
	}
	if script == "acquire" && m.buried[owner] {
		return []int64{isGone}, ""
	}
	notified = m.advance(owner, listens)
	if script == "acquire" && m.holder == "" {
		m.holder, m.token = owner, 0
	}
	rank := m.rank(owner)
	switch {
	case m.holder == owner:
		return []int64{isGranted}, notified
	case script == "acquire" && channel != "" && rank < 0 && listens(channel):
		m.places = append(m.places, place{owner: owner, channel: channel})
		rank = len(m.places) - 1
	case script == "acquire" && (channel == "" || rank < 0):
		return []int64{isRefused}, notified
	case rank < 0:
		return []int64{isGone}, notified
	}
	m.places[rank].age, m.places[rank].channel = 0, channel
	return []int64{isQueued, -1, -1, int64(m.sweep(rank))}, notified
}
