// Package tally counts the locks of a list, and the callers that wait for them.
package tally

import (
	"fmt"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/cmd/locker/internal/plain"
)

// Tally counts the rows of a list. The zero value has none.
type Tally struct {
	rows    int
	locks   int
	waiting int            // for locks
	known   bool           // the service knows of one row who waits
	inLine  map[string]int // by name: the line for its permits, with the first in the line, who has the line's lock
	atSlots map[string]int // by name: the longest queue of one of its slots
}

// Add counts a row: the lock called name, or the slot of a permit, or the line. waiting is negative if the
// service doesn't know it.
func (t *Tally) Add(name string, slot int, held bool, waiting int) {
	if t.inLine == nil {
		t.inLine, t.atSlots = make(map[string]int), make(map[string]int)
	}
	t.rows++
	t.known = t.known || waiting >= 0
	waiting = max(waiting, 0)
	switch {
	case slot == locker.LineSlot:
		if held {
			waiting++
		}
		t.inLine[name] += waiting
		return
	case slot > 0:
		t.atSlots[name] = max(t.atSlots[name], waiting)
	default:
		t.waiting += waiting
	}
	t.locks++
}

// Waiting is how many callers wait, as far as the service knows. The first in the line waits for several slots at
// the same time, and counts once.
func (t *Tally) Waiting() int {
	sum := t.waiting
	for name, n := range t.inLine {
		sum += max(n, t.atSlots[name])
	}
	for name, n := range t.atSlots {
		if _, counted := t.inLine[name]; !counted {
			sum += n
		}
	}
	return sum
}

// String says how many locks and permits there are, and how many callers wait. If the service doesn't know the waiters
// of any row, it leaves them out. A line is no lock.
func (t *Tally) String() string {
	text := plain.Count(t.locks, "lock")
	if t.known || t.rows == 0 {
		text += fmt.Sprintf(", %d waiting", t.Waiting())
	}
	return text
}
