package pgbackend_test

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// model is a sequence of Postgres, its log, the row of the epoch, and the connections that use
// them, as sequence.go describes them. A statement that moves the sequence on, or writes the row, is
// over when its records are on disk. One that only takes values doesn't wait for that.
type model struct {
	rand   *rand.Rand
	step   int64 // what reachStep is
	moves  bool  // the first connection moves the sequence on
	notes  bool  // what is a step above the row is written down before it is used
	hastes bool  // the values are used before that is on disk
	waits  bool  // a statement that takes values waits until its record is on disk
	rushes bool  // the first connection doesn't wait until the move is on disk

	last, logged, onDisk int64 // values: given out, covered by a record, covered by a record on disk
	reached              int64 // in the row, on disk
	high                 int64 // the highest value that a caller has got

	conns [16]modelConn
}

type modelConn struct {
	running *modelStatement // nil: it is idle
	ready   bool            // it has its mark, and may give values out
	limit   int64
}

type modelStatement struct {
	values  []int64 // taken for callers, who get them when it is over
	record  int64   // the last record that it wrote: it waits until that is on disk; 0: for nothing
	reached int64   // what it writes into the row; 0: nothing
}

// nextval takes a value. One record covers 32 more.
func (m *model) nextval(s *modelStatement) {
	if m.last == m.logged {
		m.logged = m.last + 1 + 32
		if m.waits {
			s.record = m.logged
		}
	}
	m.last++
	s.values = append(s.values, m.last)
}

// begin starts a statement on an idle connection: a group of tokens, or what comes before its first
// one.
func (m *model) begin(c *modelConn) {
	s := &modelStatement{}
	if c.ready {
		for range 1 + m.rand.IntN(20) {
			m.nextval(s)
		}
		c.running = s
		return
	}
	limit := m.reached
	for i := range m.conns {
		if other := &m.conns[i]; !other.ready && other.running != nil {
			return // it has the turn
		}
	}
	if !slices.ContainsFunc(m.conns[:], func(c modelConn) bool { return c.ready }) {
		limit += m.step
	}
	if m.moves && m.last < limit {
		m.last, m.logged = m.reached+m.step, m.reached+m.step
		s.record = m.last
	}
	if m.reached+m.step/2 <= m.last {
		s.reached = m.last
	}
	if m.rushes {
		s.record = 0
	}
	c.running = s
}

// finish ends a statement. What it waits for is on disk then, with all that was written before. Its
// callers get their values, unless it has to be written down first how far the sequence is.
func (m *model) finish(c *modelConn) {
	s := c.running
	c.running = nil
	if !c.ready {
		c.ready, c.limit = true, max(m.reached, s.reached)+m.step
		if m.rushes {
			return
		}
	}
	m.onDisk = max(m.onDisk, s.record)
	m.reached = max(m.reached, s.reached)
	switch {
	case s.values == nil:
		return
	case s.reached > 0:
		c.limit = m.reached + m.step
	case m.notes && slices.Max(s.values) >= c.limit:
		c.running = &modelStatement{record: m.last, values: s.values, reached: max(m.reached, m.last)}
		if !m.hastes {
			return
		}
	}
	m.high = max(m.high, slices.Max(s.values))
}

// run lets all connections end, many times: by a crash, in which what isn't on disk is lost; one by
// one; and then somebody may set the sequence back. It counts the values that aren't above all that
// were given out before.
func (m *model) run() (repeated int) {
	for range 300 {
		floor := m.high
		for range 20 + m.rand.IntN(500) {
			c := &m.conns[m.rand.IntN(len(m.conns))]
			switch s := c.running; {
			case m.rand.IntN(200) == 0: // it ends, maybe in the middle of a statement, and what that took stays taken
				*c = modelConn{}
			case s == nil:
				m.begin(c)
			case (s.record > m.onDisk || s.reached > m.reached) && m.rand.IntN(10) > 0: // the disk is slow
			default:
				before := m.high
				m.finish(c)
				if m.high != before && c.ready && slices.Min(s.values) <= floor {
					repeated++
				}
			}
			if !slices.ContainsFunc(m.conns[:], func(c modelConn) bool { return c.ready }) {
				floor = m.high
			}
		}
		m.conns = [16]modelConn{}
		if m.rand.IntN(2) == 0 { // a crash
			m.last, m.logged = m.onDisk, m.onDisk
		}
		if m.rand.IntN(4) == 0 {
			m.last = m.rand.Int64N(m.last + 1)
			m.logged, m.onDisk = m.last, m.last
		}
	}
	return repeated
}

func TestNoTokenTwice(t *testing.T) {
	for _, step := range []int64{50, 500, 5000} {
		for seed := range uint64(20) {
			for _, waits := range []bool{true, false} {
				m := &model{rand: rand.New(rand.NewPCG(seed, 1)), step: step, moves: true, notes: true, waits: waits}
				if n := m.run(); n > 0 {
					t.Errorf("step %d, seed %d, waits %v: %d tokens were given out twice", step, seed, waits, n)
				}
				if m.high < 10_000 {
					t.Errorf("step %d, seed %d, waits %v: the model has come to %d: this proves nothing", step, seed, waits, m.high)
				}
			}
		}
	}
}

// Without one of the parts the model repeats tokens; otherwise the test above proves nothing.
func TestTokensRepeatWithoutAPart(t *testing.T) {
	for name, m := range map[string]model{
		"nothing is moved":                  {step: 500, notes: true},
		"nothing is written down":           {step: 500, moves: true},
		"values are used before it is":      {step: 500, moves: true, notes: true, hastes: true},
		"nothing is moved, or written down": {step: 500},
		"the move isn't on disk":            {step: 500, moves: true, notes: true, rushes: true},
	} {
		repeated := 0
		for seed := uint64(0); seed < 40 && repeated == 0; seed++ {
			m := m
			m.rand = rand.New(rand.NewPCG(seed, 1))
			repeated += m.run()
		}
		if repeated == 0 {
			t.Errorf("%s: no token was given out twice", name)
		}
	}
}
