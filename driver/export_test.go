package driver

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker"
)

var simulated atomic.Int64

// SimulateSuspensions replaces the system's clocks by Suspend: their readings are too coarse for
// tests that assert exact moments. It is called once, before the first test.
func SimulateSuspensions() {
	suspended = func() time.Duration { return time.Duration(simulated.Load()) }
}

// Suspend is a suspension of the machine that took d, and of which Go's clock and timers know
// nothing. Like a real suspension it can't be undone.
func Suspend(d time.Duration) { simulated.Add(int64(d)) }

// Truth is the time that an omniscient observer reads. Unlike Now, it makes no suspension known to
// the engine.
func Truth() Instant { return Instant(time.Since(epoch)) + Instant(simulated.Load()) }

// Residue describes what the engine of l still has to do; it is empty when that is nothing.
func Residue(l locker.Locker) string {
	e := l.(*engine)
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.leases)+len(e.moments)+len(e.queues)+len(e.removers.due)+len(e.inSilence.due)+len(e.cancels)+e.busy == 0 {
		return ""
	}
	return fmt.Sprintf("%d leases, %d moments, %d queues, %d removals due, %d cancels, %d goroutines, %d of them removers",
		len(e.leases), len(e.moments), len(e.queues), len(e.removers.due)+len(e.inSilence.due), len(e.cancels), e.busy,
		e.removers.going+e.inSilence.going)
}

// TouchMutex locks and unlocks the engine's mutex. It doesn't return when its caller holds the
// mutex.
func TouchMutex(l locker.Locker) {
	e := l.(*engine)
	e.mu.Lock()
	e.mu.Unlock() //nolint:staticcheck // nothing is done under it
}
