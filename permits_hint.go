package locker

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// hint is what this process remembers of the permits of a name.
type hint struct {
	// last is the slot that was released last, until it is asked for; 0: none. It may be of another Locker or
	// name: then a call asks for a slot that is held, which costs a request.
	last atomic.Int32

	mu      sync.Mutex
	waiting map[waitingCall]int // how many wait in the line
}

// waitingCall distinguishes calls that wait in the line.
type waitingCall struct {
	line  any // the same for calls that wait in the same line of the same Locker
	limit int
}

// lineKey is the same for two calls with the same Locker and name. A Locker that can't be compared is
// another one each time.
func lineKey(l Locker, name string) any { return itemKey(Item{l, Want{Name: name}}) }

// join notes a further call in the line. [hint.leave] is called once after it.
func (h *hint) join(c waitingCall) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == nil {
		h.waiting = make(map[waitingCall]int)
	}
	h.waiting[c]++
}

func (h *hint) leave(c waitingCall) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting[c]--; h.waiting[c] == 0 {
		delete(h.waiting, c)
	}
}

// isBehindOthers reports whether calls wait in the same line, none of which has a smaller limit.
func (h *hint) isBehindOthers(c waitingCall) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	behind := false
	for other := range h.waiting {
		if other.line != c.line {
			continue
		}
		if other.limit < c.limit {
			return false
		}
		behind = true
	}
	return behind
}

var (
	hints     [4096]hint
	hintsSeed = maphash.MakeSeed()
)

func hintOf(name string) *hint { return &hints[maphash.String(hintsSeed, name)%uint64(len(hints))] }
