package conformance

import (
	"fmt"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// open opens a Locker for the length of the case.
func (h *Harness) open(t T) locker.Locker {
	t.Helper()
	return step.CloseAtEnd(t, h.Open(t))
}

// linked opens a Locker on a link that is healed before the Locker is closed.
func (h *Harness) linked(t T) (locker.Locker, Link) {
	t.Helper()
	l, link := h.Linked(t)
	step.CloseAtEnd(t, l)
	t.Cleanup(link.Heal)
	return l, link
}

// queued waits until n acquisitions wait on the service. Without the hook it lets time pass.
func (h *Harness) queued(t T, name string, n int) {
	t.Helper()
	if h.Waiters == nil {
		step.Pass(t, h.settle(), "no hook tells whether the waiter is queued")
		return
	}
	got := 0
	step.Eventually(t, step.Limit, func() bool {
		got = h.Waiters(t, name)
		return got == n
	}, func() string { return fmt.Sprintf("%d acquisitions wait on the service, want %d", got, n) })
}

// requests counts, where the harness can.
func (h *Harness) requests(t T) int64 {
	if h.Requests == nil {
		return 0
	}
	return h.Requests(t)
}

// requestsAtRest counts once nothing more comes of what was asked before. Where several servers are asked, an operation is done when
// most of them have answered, and the last request may come later.
func (h *Harness) requestsAtRest(t T) int64 {
	t.Helper()
	n := h.requests(t)
	for range 20 {
		before := n
		step.Pass(t, h.settle(), "requests of before may come late")
		if n = h.requests(t); n == before {
			break
		}
	}
	return n
}

// noResidue fails when something stays on the service, where the harness can tell.
func (h *Harness) noResidue(t T) {
	t.Helper()
	if h.Residue == nil {
		return
	}
	left := ""
	step.Eventually(t, h.removal(), func() bool {
		left = h.Residue(t)
		return left == ""
	}, func() string { return "left on the service: " + left })
}

// pause stops the service until the function that it returns is called, or the case ends.
func (h *Harness) pause(t T) (resume func()) { return between(t, h.Pause, h.Resume) }

// down makes the service fail until the function that it returns is called, or the case ends.
func (h *Harness) down(t T) (up func()) { return between(t, h.Down, h.Up) }

func between(t T, begin, end func(T)) func() {
	begin(t)
	over := false
	stop := func() {
		if !over {
			over = true
			end(t)
		}
	}
	t.Cleanup(stop)
	return stop
}
