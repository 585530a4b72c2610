package pgbackend_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fencedlock/locker/pgbackend"
)

// model is a sequence of Postgres, its log, and the connections that use it, as skip.go describes them. A statement is over when its
// records are on disk. Until then its values are taken, and others may be given out what it has logged.
type model struct {
	rand        *rand.Rand
	connections int
	step        int64 // of a new connection
	moves       int   // how many of them
	crowd       bool  // nobody waits for a turn

	last, logged, onDisk int64 // values: given out, covered by a record, covered by a record on disk
	high                 int64 // the highest value that a caller has got

	conns  []connection
	moving int // the connection that has the turn; -1: none
}

type connection struct {
	running *statement // nil: it is idle
	moves   int        // steps that it has still to take
	ready   bool       // it may give values out
	mark    bool
}

// statement is under way on a connection.
type statement struct {
	values []int64 // taken for callers, who get them when it is over
	record int64   // the last record that it wrote: it waits until that is on disk; 0: for nothing
}

func (m *model) nextval(s *statement) int64 {
	if m.last == m.logged {
		m.logged = m.last + 1 + pgbackend.LogAhead
		s.record = m.logged
	}
	m.last++
	return m.last
}

// begin starts a statement on an idle connection: a group of tokens, or what comes before its first one.
func (m *model) begin(i int) {
	c, s := &m.conns[i], &statement{}
	switch {
	case c.ready:
		for range 1 + m.rand.IntN(pgbackend.GroupSize) {
			s.values = append(s.values, m.nextval(s))
		}
	case c.moves > 0:
		for range m.step {
			m.nextval(s)
		}
	case m.moving >= 0 && !m.crowd:
		return // waits for its turn
	case m.moves == 0 || slices.ContainsFunc(m.conns, func(c connection) bool { return c.mark }):
		c.ready, c.mark = true, true
		return
	default:
		m.moving, c.moves = i, m.moves
		return
	}
	c.running = s
}

// finish ends a statement: what it wrote is on disk then, with all that was written before.
func (m *model) finish(i int) {
	c := &m.conns[i]
	m.onDisk = max(m.onDisk, c.running.record)
	for _, v := range c.running.values {
		m.high = max(m.high, v)
	}
	c.running = nil
	if c.moves > 0 {
		if c.moves--; c.moves == 0 {
			m.moving, c.ready, c.mark = -1, true, true
		}
	}
}

// end ends a connection, maybe in the middle of a statement. What that took stays taken, and nobody waits for it.
func (m *model) end(i int) {
	m.conns[i] = connection{}
	if m.moving == i {
		m.moving = -1
	}
}

// crash ends all connections. What is not on disk is lost.
func (m *model) crash() {
	m.last, m.logged = m.onDisk, m.onDisk
	m.start()
}

func (m *model) start() {
	m.moving, m.conns = -1, make([]connection, m.connections)
}

// run lets crashes happen at random moments, and counts the values that are not above all that were given out before the last one.
// After each, the connections come back one by one. Between two crashes some are ended, and some lose their mark; all of them may.
func (m *model) run(crashes int) int {
	m.start()
	repeated := 0
	for range crashes {
		floor, back, ended := m.high, 1, 0
		forgetful := m.rand.IntN(2) == 0
		for range 50 + m.rand.IntN(3000) {
			if m.rand.IntN(20) == 0 {
				back = min(back+1, m.connections)
			}
			i := m.rand.IntN(back)
			c := &m.conns[i]
			switch s := c.running; {
			case ended < m.connections && m.rand.IntN(100) == 0:
				ended++
				m.end(i)
			case forgetful && s == nil && m.rand.IntN(4) == 0:
				c.mark = false
			case s == nil:
				m.begin(i)
			case s.record > m.onDisk && m.rand.IntN(20) > 0: // the disk is slow
			default:
				for _, v := range s.values {
					if v <= floor {
						repeated++
					}
				}
				m.finish(i)
			}
		}
		m.crash()
	}
	return repeated
}

func TestNoTokenTwiceOverCrashes(t *testing.T) {
	for _, connections := range []int{1, 2, 5, 16, 40} {
		for seed := range uint64(8) {
			m := &model{rand: rand.New(rand.NewPCG(seed, 1)), connections: connections,
				step: int64(pgbackend.SkipStep(connections)), moves: pgbackend.SkipSteps}
			if n := m.run(100); n > 0 {
				t.Errorf("%d connections, seed %d: %d tokens were given out twice", connections, seed, n)
			}
		}
	}
}

// Without the skip, with less than a crash can take back, with one large step, or without a turn, the model repeats tokens; otherwise
// the test above proves nothing.
func TestTokensRepeatWithoutTheSkip(t *testing.T) {
	const connections = 40
	step := int64(pgbackend.SkipStep(connections))
	for name, m := range map[string]model{
		"no skip":        {},
		"a short one":    {step: 20, moves: pgbackend.SkipSteps},
		"one large step": {step: step * pgbackend.SkipSteps, moves: 1},
		"no turn":        {step: step, moves: pgbackend.SkipSteps, crowd: true},
	} {
		repeated := 0
		for seed := uint64(0); seed < 40 && repeated == 0; seed++ {
			m := m
			m.rand, m.connections = rand.New(rand.NewPCG(seed, 1)), connections
			repeated += m.run(100)
		}
		if repeated == 0 {
			t.Errorf("%s: no token was given out twice in 4,000 crashes", name)
		}
	}
}
