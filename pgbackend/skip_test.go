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
	skip        int64
	early       bool // the mark is taken before the sequence has been moved on, on disk
	all         bool // all move the sequence on, one after the other, and those with a mark don't wait for it

	last, logged, onDisk int64 // values: given out, covered by a record, covered by a record on disk
	high                 int64 // the highest value that a caller has got

	running []*statement // one for each connection; nil: it is idle
	ready   []bool       // connections that have a mark
	moving  int          // the connection that moves the sequence on, under the lock; -1: none
	marked  bool         // a connection has done that
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
	s := &statement{}
	switch {
	case m.ready[i]:
		for range 1 + m.rand.IntN(pgbackend.GroupSize) {
			s.values = append(s.values, m.nextval(s))
		}
	case m.marked && !m.all:
		m.ready[i] = true
		return
	case m.moving >= 0:
		return // waits for the lock
	default:
		m.moving = i
		for range m.skip {
			m.nextval(s)
		}
		m.marked = m.marked || m.early
	}
	m.running[i] = s
}

// finish ends a statement: what it wrote is on disk then, with all that was written before.
func (m *model) finish(i int) {
	s := m.running[i]
	m.running[i] = nil
	m.onDisk = max(m.onDisk, s.record)
	if m.moving == i {
		m.moving, m.marked, m.ready[i] = -1, true, true
	}
	for _, v := range s.values {
		m.high = max(m.high, v)
	}
}

// breakOff ends a connection in the middle of a statement. What that took stays taken, and nobody waits for it.
func (m *model) breakOff(i int) {
	m.running[i], m.ready[i] = nil, false
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
	m.moving, m.marked = -1, false
	m.running = make([]*statement, m.connections)
	m.ready = make([]bool, m.connections)
}

// run lets crashes happen at random moments, and counts the values that are not above all that were given out before the last one.
// After each, the connections come back one by one. As many statements as there are connections are broken off between two crashes.
func (m *model) run(crashes int) int {
	m.start()
	repeated := 0
	for range crashes {
		floor, back, broken := m.high, 1, 0
		for range 50 + m.rand.IntN(3000) {
			if m.rand.IntN(20) == 0 {
				back = min(back+1, m.connections)
			}
			i := m.rand.IntN(back)
			switch s := m.running[i]; {
			case s == nil:
				m.begin(i)
			case broken < m.connections && m.rand.IntN(100) == 0:
				broken++
				m.breakOff(i)
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
			m := &model{rand: rand.New(rand.NewPCG(seed, 1)), connections: connections, skip: int64(pgbackend.SkipValues(connections))}
			if n := m.run(50); n > 0 {
				t.Errorf("%d connections, seed %d: %d tokens were given out twice", connections, seed, n)
			}
		}
	}
}

// Without the skip, with less than a crash can take back, or with a mark that doesn't wait for the disk, the model repeats tokens;
// otherwise the test above proves nothing.
func TestTokensRepeatWithoutTheSkip(t *testing.T) {
	const connections = 40
	enough := int64(pgbackend.SkipValues(connections))
	for name, m := range map[string]model{
		"no skip":                     {},
		"a short one":                 {skip: 20},
		"a mark before it is on disk": {skip: enough / 3, early: true},
		"each connection for itself":  {skip: enough / 3, all: true},
	} {
		repeated := 0
		for seed := uint64(0); seed < 40 && repeated == 0; seed++ {
			m := m
			m.rand, m.connections = rand.New(rand.NewPCG(seed, 1)), connections
			repeated += m.run(20)
		}
		if repeated == 0 {
			t.Errorf("%s: no token was given out twice in 800 crashes", name)
		}
	}
}
