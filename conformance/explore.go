package conformance

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
)

// Budget says how long [Explore] searches. The zero Budget is a short search.
type Budget struct {
	Steps int           // operations in all; zero: 20,000
	Time  time.Duration // real time for all programs; zero: 10 s. The search ends when either is used up

	// Shrink is how long a program that fails is shortened. Zero: 20 s; below zero: not at all.
	Shrink time.Duration

	// Seed is where the search begins: the same seed gives the same programs, for the same harness
	// and version. Zero: the flag -rapid.seed, or a random one.
	Seed uint64
}

func (b Budget) withDefaults() Budget {
	if b.Steps == 0 {
		b.Steps = 20_000
	}
	if b.Time == 0 {
		b.Time = 10 * time.Second
	}
	if b.Shrink == 0 {
		b.Shrink = 20 * time.Second
	}
	if b.Seed == 0 {
		if f := flag.Lookup("rapid.seed"); f != nil {
			b.Seed, _ = strconv.ParseUint(f.Value.String(), 10, 64)
		}
	}
	for b.Seed == 0 {
		b.Seed = rand.Uint64()
	}
	return b
}

// Explore looks for a program that a backend doesn't get right. Where the cases of [Run] are chosen
// by people, these programs are random: acquisitions, renewals, releases and cancellations from
// several Lockers, while links and the service fail as far as the hooks of the harness allow. A
// model of the contract judges each answer.
//
// A failure prints the shortest failing program that was found, as Go for [Replay], what happened
// in it, and the invariant that is broken with the reason why it matters.
//
// The programs run one after the other, and Setup of the harness before each. Where Wrap is
// synctest.Test, a second is enough for thousands of operations. On the real clock a program takes
// some seconds, and mostly waits.
func Explore(t *testing.T, h Harness, b Budget) {
	t.Helper()
	b = b.withDefaults()
	s := newSearch(t, h, b)
	if c := s.run(); c != nil {
		t.Fatalf("%v", c)
	}
	t.Logf("%d programs with %d operations in %v, from seed %d: nothing is wrong", s.programs, s.steps, s.took.Round(time.Millisecond), b.Seed)
}

// Replay executes one program, such as one that [Explore] has printed. On real servers and with
// races a program may fail only now and then, so try it several times.
func Replay(t *testing.T, h Harness, p Program) {
	t.Helper()
	s := newSearch(t, h, Budget{}.withDefaults())
	if c := s.try(p); c != nil {
		t.Fatalf("%v", c)
	}
}

// counterexample is a program that a backend doesn't get right.
type counterexample struct {
	Breach   *breach
	Program  Program
	Timeline string
	Log      string // of the hooks
	Seed     uint64 // of the search that begins with this program; 0: there is none
	Found    int    // the number of operations until it was found

	Ended <-chan struct{} // not nil: the program didn't end in time. Closed when it has ended after all
}

func (c *counterexample) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n\n", c.Breach)
	if c.Seed != 0 {
		fmt.Fprintf(&b, "seed %d\n\n", c.Seed)
	}
	fmt.Fprintf(&b, "conformance.Replay(t, harness, %v)\n\n"+
		"what happened (~ begins the names of this run; numbers below zero, and the last locker, are tries of Explore):\n%s",
		c.Program, c.Timeline)
	if c.Log != "" {
		fmt.Fprintf(&b, "\nthe harness says:\n%s", c.Log)
	}
	return b.String()
}

// searching is the state of a search.
type searching struct {
	t        *testing.T
	h        Harness
	b        Budget
	g        locker.Guarantees
	traits   traits
	took     time.Duration // real time of the programs that were tried
	limit    time.Duration // of one program in a bubble, on the real clock
	programs int
	steps    int
}

func newSearch(t *testing.T, h Harness, b Budget) *searching {
	t.Helper()
	s := &searching{t: t, h: h, b: b, limit: programLimit}
	// Recorders, because their clean-ups give back what Setup has taken for one program.
	look := func(f func(t T)) {
		t.Helper()
		var r *recorder
		h.wrap(t, func(t *testing.T) { r = record(t.Context(), t.Name(), f) })
		if r.Failed() {
			t.Fatalf("%s", r.text())
		}
	}
	look(func(t T) { s.g = h.manifest(t) })
	look(func(t T) { s.traits = traitsOf(t, h.prepare(t, s.g), s.g) })
	return s
}

// run searches until a program fails, or the budget is used up.
func (s *searching) run() *counterexample {
	programs := s.traits.programs()
	for seed := s.b.Seed; s.steps < s.b.Steps && s.took < s.b.Time; seed++ {
		program := generate(programs, seed) // may wait for another search, which isn't counted
		began := time.Now()
		c := s.try(program)
		s.took += time.Since(began)
		if c == nil {
			continue
		}
		c.Seed = seed
		c.Found = s.steps
		if c.Ended != nil {
			return c // each shorter program would take as long
		}
		return s.shrink(programs, c)
	}
	return nil
}

// attempt executes one program.
func (s *searching) attempt(p Program) (c *counterexample) {
	var x *execution
	var log string
	left := func() []string { return nil }
	defer func() {
		if r := recover(); r != nil && c == nil {
			// synctest panics when goroutines are left.
			c = &counterexample{Program: p, Breach: &breach{nothingStays.name, fmt.Sprint(r), nothingStays.why}}
			if x != nil {
				c.Timeline = x.timeline()
			}
		}
	}()
	s.programs++
	s.h.wrap(s.t, func(t *testing.T) {
		r := record(context.Background(), s.t.Name(), func(t T) {
			h := s.h.prepare(t, s.g) // a service that it starts may go on after the program
			run := func(labels context.Context) { x = execute(labels, t, h, p) }
			if s.traits.bubble { // which finds goroutines that are left by itself
				run(context.Background())
				return
			}
			left = offspring(context.Background(), s.t.Name()+strconv.Itoa(s.programs), run)
		})
		log = r.text()
		if x != nil && x.broken != nil {
			c = &counterexample{Program: p, Breach: x.broken, Timeline: x.timeline(), Log: log}
		} else if r.Failed() {
			c = &counterexample{Program: p, Breach: &breach{"the harness works", "a hook has failed", "nothing is known then"}, Log: log}
		} else if stacks := remaining(left); len(stacks) > 0 {
			what := "goroutines are left after the program:\n" + strings.Join(stacks, "\n\n")
			c = &counterexample{Program: p, Breach: &breach{nothingStays.name, what, nothingStays.why}, Timeline: x.timeline(), Log: log}
		}
	})
	if x != nil {
		s.steps += max(x.steps, 1)
	}
	return c
}

// remaining waits until no goroutines are left, and returns those that stay. It looks again and
// again, because nothing says that a goroutine has ended.
func remaining(left func() []string) []string {
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if stacks := left(); len(stacks) == 0 || time.Now().After(end) {
			return stacks
		}
	}
}

// longTimeline is how many lines are shown in any case.
const longTimeline = 60

// timeline is what happened, in words.
func (m *model) timeline() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	others := 0
	for _, e := range m.log {
		if len(m.log) > longTimeline && m.brokenLock != "" && e.lock != "" && e.lock != m.brokenLock {
			others++
			continue
		}
		line := fmt.Sprintf("%12v  %s\n", e.at, fmt.Sprintf(e.format, e.args...))
		b.WriteString(strings.ReplaceAll(line, m.base, "~"))
	}
	if others > 0 {
		fmt.Fprintf(&b, "(%d lines about other locks are left out)\n", others)
	}
	return b.String()
}

// search is Explore with a result. nil: nothing was found.
func search(t *testing.T, h Harness, b Budget, seed uint64) *counterexample {
	t.Helper()
	b.Seed = seed
	return newSearch(t, h, b.withDefaults()).run()
}
