package pgbackend_test

import (
	"math/rand/v2"
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

	last, logged, onDisk int64 // values: given out, covered by a record, covered by a record on disk
	high                 int64 // the highest value that a caller has got

	running []*statement // one for each connection; nil: it is idle
	steps   []int        // how many steps each new connection has still to take before it may give values out; -1: it has yet to find out
	moving  int          // the connection that takes a step, under the lock; -1: none
	marked  bool         // a connection has taken all of them
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

// begin starts a statement on an idle connection: a step, or a group of tokens.
func (m *model) begin(i int) {
	s := &statement{}
	switch {
	case m.steps[i] != 0 && m.moving >= 0:
		return // waits for the lock
	case m.steps[i] < 0: // looks for a mark
		if m.steps[i] = m.moves; m.marked {
			m.steps[i] = 0
		}
		return
	case m.steps[i] > 0:
		m.moving = i
		for range m.step {
			m.nextval(s)
		}
	default:
		for range 1 + m.rand.IntN(pgbackend.GroupSize) {
			s.values = append(s.values, m.nextval(s))
		}
	}
	m.running[i] = s
}

// finish ends a statement: what it wrote is on disk then, with all that was written before.
func (m *model) finish(i int) {
	s := m.running[i]
	m.running[i] = nil
	m.onDisk = max(m.onDisk, s.record)
	if m.moving == i {
		m.moving = -1
		m.steps[i]--
		m.marked = m.marked || m.steps[i] == 0
	}
	for _, v := range s.values {
		m.high = max(m.high, v)
	}
}

// crash ends all connections. What is not on disk is lost.
func (m *model) crash() {
	m.last, m.logged = m.onDisk, m.onDisk
	m.start()
}

func (m *model) start() {
	m.moving, m.marked = -1, false
	m.running = make([]*statement, m.connections)
	m.steps = make([]int, m.connections)
	for i := range m.steps {
		m.steps[i] = -1
	}
}

// run lets crashes happen at random moments, and counts the values that are not above all that were given out before the last one.
// After each, the connections come back one by one.
func (m *model) run(crashes int) int {
	m.start()
	repeated := 0
	for range crashes {
		floor, back := m.high, 1
		for range 50 + m.rand.IntN(3000) {
			if m.rand.IntN(20) == 0 {
				back = min(back+1, m.connections)
			}
			i := m.rand.IntN(back)
			switch s := m.running[i]; {
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
		for seed := range uint64(4) {
			m := &model{rand: rand.New(rand.NewPCG(seed, 1)), connections: connections,
				step: int64(pgbackend.SkipStep(connections)), moves: pgbackend.SkipSteps}
			if n := m.run(50); n > 0 {
				t.Errorf("%d connections, seed %d: %d tokens were given out twice", connections, seed, n)
			}
		}
	}
}

// Without the skip, with less than a crash can take back, or with one large step, the model repeats tokens; otherwise the test above
// proves nothing.
func TestTokensRepeatWithoutTheSkip(t *testing.T) {
	for _, c := range []struct {
		connections int
		step        int64
		moves       int
	}{
		{16, 0, 0},
		{40, 0, 0},
		{40, 20, 3},
		{16, int64(pgbackend.SkipStep(16)), 1},
	} {
		repeated := 0
		for seed := uint64(0); seed < 40 && repeated == 0; seed++ {
			m := &model{rand: rand.New(rand.NewPCG(seed, 1)), connections: c.connections, step: c.step, moves: c.moves}
			repeated += m.run(20)
		}
		if repeated == 0 {
			t.Errorf("%d connections and %d steps of %d: no token was given out twice in 800 crashes", c.connections, c.moves, c.step)
		}
	}
}
