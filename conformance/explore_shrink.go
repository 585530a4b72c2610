package conformance

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"pgregory.net/rapid"
)

// Programs are made and shortened by package rapid. It is used in an unusual way, for two reasons.
//
// A search wants a seed and a budget of its own, and may run alongside other searches, while rapid's
// settings are flags of the whole test binary. So the search makes its programs by
// [rapid.Generator.Example], which depends on nothing but its seed. Only a program that fails goes to
// [rapid.Check], which draws the same program from the same seed and shortens it. That needs the flags,
// so one program is shortened at a time, and the flags are set back.
//
// On a real server a program may fail the first time and not the second time, which rapid takes for
// a mistake in the test. So a program that has failed once counts as failed.

// generate makes the program of a seed.
func generate(programs *rapid.Generator[Program], seed uint64) Program {
	rapidFlags.RLock()
	defer rapidFlags.RUnlock()
	return programs.Example(int(seed)) //nolint:gosec // all bits are kept
}

// shrink returns the shortest program that it finds that breaks the same invariant.
func (s *searching) shrink(programs *rapid.Generator[Program], found *counterexample) *counterexample {
	if s.b.Shrink < 0 {
		return found
	}
	shortest := found
	failed := map[string]bool{found.Program.String(): true}
	passed := make(map[string]bool)
	end := time.Now().Add(s.b.Shrink / 2)
	fails := func(p Program) bool {
		key := p.String()
		if failed[key] || passed[key] || time.Now().After(end) {
			return failed[key]
		}
		var c *counterexample
		for range s.tries() {
			if c = s.try(p); c == nil || c.Breach.Invariant != found.Breach.Invariant {
				passed[key] = true
				return false
			}
		}
		failed[key] = true
		if len(p.Steps) <= len(shortest.Program.Steps) {
			c.Seed, c.Found = found.Seed, found.Found
			shortest = c
		}
		return true
	}
	checkOnce(found.Seed, s.b.Shrink/2, s.t.Name(), func(t *rapid.T) {
		if fails(programs.Draw(t, "program")) {
			t.Fatalf("broken")
		}
	})
	end = time.Now().Add(s.b.Shrink / 2)
	simplify(dropSteps(shortest.Program, fails), fails)
	if short := shortest.Program.trimmed(); len(short.Steps) > 0 {
		shortest.Program = short
	}
	return shortest
}

// tries is how often a shorter program must fail. In a bubble the order of what happens at one time
// is random, and a longer program that fails each time is worth more. On a real server each try
// takes seconds.
func (s *searching) tries() int {
	if s.traits.bubble {
		return 3
	}
	return 1
}

// dropSteps leaves out steps that aren't needed: first many at once, in the end one by one. Package
// rapid does that too, but doesn't get far in its time with a program that takes long.
func dropSteps(p Program, fails func(Program) bool) Program {
	for size := len(p.Steps) / 2; size > 0; {
		dropped := false
		for from := 0; from < len(p.Steps); {
			shorter := p
			shorter.Steps = slices.Delete(slices.Clone(p.Steps), from, min(from+size, len(p.Steps)))
			if fails(shorter) {
				p, dropped = shorter, true
			} else {
				from += size
			}
		}
		if !dropped || size > 1 {
			size /= 2
		}
	}
	return p
}

// simplify makes the numbers of each step smaller or rounder.
func simplify(p Program, fails func(Program) bool) {
	try := func(i int, change func(*Step)) {
		simpler := p
		simpler.Steps = slices.Clone(p.Steps)
		if change(&simpler.Steps[i]); simpler.Steps[i] != p.Steps[i] && fails(simpler) {
			p = simpler
		}
	}
	for i := range p.Steps {
		for half := p.Steps[i].Count / 2; half > 0; half /= 2 {
			try(i, func(s *Step) {
				if s.Count > half {
					s.Count -= half
					s.Spread = max(0, min(s.Spread, s.Count))
				}
			})
		}
		for _, unit := range []time.Duration{time.Second, 100 * time.Millisecond, 10 * time.Millisecond, time.Millisecond} {
			for _, field := range []func(*Step) *time.Duration{
				func(s *Step) *time.Duration { return &s.At }, func(s *Step) *time.Duration { return &s.TTL },
				func(s *Step) *time.Duration { return &s.There }, func(s *Step) *time.Duration { return &s.Back },
			} {
				try(i, func(s *Step) {
					if d := field(s); *d > unit {
						*d = d.Round(unit)
					}
				})
			}
		}
	}
}

// rapidFlags protects rapid's flags. While one program is shortened, other searches wait.
var rapidFlags sync.RWMutex

// checkOnce has rapid check a property that fails with the seed, and shorten what it draws.
func checkOnce(seed uint64, limit time.Duration, name string, property func(*rapid.T)) {
	rapidFlags.Lock()
	defer rapidFlags.Unlock()
	for flagName, value := range map[string]string{
		"rapid.seed": strconv.FormatUint(seed, 10), "rapid.checks": "5", "rapid.nofailfile": "true",
		"rapid.failfile": "", "rapid.shrinktime": limit.String(),
	} {
		f := flag.Lookup(flagName)
		before := f.Value.String()
		defer func() { _ = f.Value.Set(before) }()
		_ = f.Value.Set(value)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		rapid.Check(&quiet{name: name}, property)
	}()
	<-done
}

// quiet is what rapid reports to: nothing of that is for the user.
type quiet struct {
	name   string
	failed bool
}

var _ rapid.TB = (*quiet)(nil)

func (q *quiet) Helper()               {}
func (q *quiet) Name() string          { return fmt.Sprintf("%s-explore", q.name) }
func (q *quiet) Logf(string, ...any)   {}
func (q *quiet) Log(...any)            {}
func (q *quiet) Skipf(string, ...any)  { panic("skipped") }
func (q *quiet) Skip(...any)           { panic("skipped") }
func (q *quiet) SkipNow()              { panic("skipped") }
func (q *quiet) Errorf(string, ...any) { q.failed = true }
func (q *quiet) Error(...any)          { q.failed = true }
func (q *quiet) Fatalf(string, ...any) { q.FailNow() }
func (q *quiet) Fatal(...any)          { q.FailNow() }
func (q *quiet) FailNow() {
	q.failed = true
	runtime.Goexit()
}
func (q *quiet) Fail()        { q.failed = true }
func (q *quiet) Failed() bool { return q.failed }
