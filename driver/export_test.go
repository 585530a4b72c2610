package driver

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker"
)

var simulated atomic.Int64

// SimulateSuspensions puts Suspend in the place of the system's clocks, whose readings are too coarse for tests that
// assert exact moments. It is called once, before the first test.
func SimulateSuspensions() {
	suspended = func() time.Duration { return time.Duration(simulated.Load()) }
}

// Suspend is a suspension of the machine that took d, and of which Go's clock and timers know nothing. Like a real one
// it is never taken back.
func Suspend(d time.Duration) { simulated.Add(int64(d)) }

// Truth is the time that an omniscient observer reads: unlike Exact, it tells nobody else of a suspension.
func Truth() Instant { return Instant(time.Since(epoch)) + Instant(simulated.Load()) }

// SystemSuspended is what the system says.
func SystemSuspended() time.Duration { return systemSuspended() }

// Residue describes what the engine of l still has to do; it is empty when that is nothing.
func Residue(l locker.Locker) string {
	e := l.(*engine)
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.leases)+len(e.moments)+len(e.queues)+len(e.removals)+e.busy == 0 {
		return ""
	}
	return fmt.Sprintf("%d leases, %d moments, %d queues, %d removals due, %d goroutines, %d of them removers",
		len(e.leases), len(e.moments), len(e.queues), len(e.removals), e.busy, e.removers)
}

// TouchMutex takes the engine's mutex and gives it back: it doesn't return when the caller has it.
func TouchMutex(l locker.Locker) {
	e := l.(*engine)
	e.mu.Lock()
	e.mu.Unlock() //nolint:staticcheck // nothing is done under it
}

// Moments is the engine's heap, and Moment a lease in it.
type (
	Moments struct{ h heap }
	Moment  struct{ l lease }
)

func NewMoment() *Moment { return &Moment{lease{pos: -1}} }

func (ms *Moments) Set(m *Moment, at Instant) { ms.h.set(&m.l, at) }
func (ms *Moments) Remove(m *Moment)          { ms.h.remove(&m.l) }
func (ms *Moments) Len() int                  { return len(ms.h) }

// First returns the earliest moment.
func (ms *Moments) First() Instant { return ms.h[0].at }

// Check says what is wrong with the order or the places.
func (ms *Moments) Check() error {
	for i, l := range ms.h {
		if l.pos != i {
			return fmt.Errorf("the lease at %d believes to be at %d", i, l.pos)
		}
		if parent := ms.h[(i-1)/2]; i > 0 && parent.at > l.at {
			return fmt.Errorf("%d is before its parent at %d", i, (i-1)/2)
		}
	}
	return nil
}
