package conformance

import (
	"fmt"
	"time"
)

// programLimit is how long a program may take in a bubble, where most take some milliseconds.
const programLimit = 2 * time.Minute

// try executes one program, in its own bubble or on the real clock. The clock of a bubble stands
// still while anything runs in it. So no limit of the model is reached if the backend never rests,
// such as one that sets a timer to a moment in the past again and again, and nothing can end it.
func (s *searching) try(p Program) *counterexample {
	if !s.traits.bubble {
		return s.attempt(p)
	}
	var c *counterexample
	failed := true // the program has ended its goroutine
	done := make(chan struct{})
	go func() {
		defer close(done)
		c = s.attempt(p)
		failed = false
	}()
	select {
	case <-done:
	case <-time.After(s.limit):
		what := fmt.Sprintf("the program has not ended after %v of the real clock: something never rests", s.limit)
		b := &breach{callsReturn.name, what, callsReturn.why}
		return &counterexample{Program: p, Breach: b, Ended: done}
	}
	if failed {
		s.t.FailNow()
	}
	return c
}
